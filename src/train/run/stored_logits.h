// A network's logits of a training set in a file, from which another learns later.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "dataset/dataset.h"

namespace trainctl::train {

/// Writes logits as `logits` of a safetensors file, with the fingerprint and the class names of the data they are of.
void write_logits(const std::filesystem::path& path, const at::Tensor& logits, const dataset::Datasets& data);

/// Reads what write_logits() wrote. Throws Error if it is of other data, or of other classes or their other order.
at::Tensor read_logits(const std::filesystem::path& path, const dataset::Datasets& data);

}  // namespace trainctl::train
