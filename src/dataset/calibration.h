// The training set as evaluation sees it: what ranges of activations are found on.
#pragma once

#include <memory>

#include "dataset/dataset.h"

namespace trainctl::dataset {

/// All training samples, shuffled, without random transforms. Its batches normalise on the host.
std::unique_ptr<Loader> build_calibration(const DatasetConfig& config, const LoaderOptions& options);

}  // namespace trainctl::dataset
