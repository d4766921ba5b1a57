// What a trained model must know of its data, as text, and datasets that know only that.
#pragma once

#include <string>

#include "dataset/dataset.h"

namespace trainctl::dataset {

/// Writes the spec of the training samples as JSON: shapes, classes, and the encoding of a table's columns.
std::string description_of(const SampleSpec& spec);

/// Returns datasets of a description, for commands that use a model and no samples. A loader tells its spec, and throws
/// core::Error if a caller asks for a batch. Throws core::Error if the text is no description.
Datasets described_datasets(const std::string& description, const std::string& fingerprint);

/// Compares what samples mean to a model: the classes, and the inputs made of a table's columns. Returns how they
/// differ from those of its training; "" if they don't.
std::string changed_meaning(const SampleSpec& trained, const SampleSpec& now);

}  // namespace trainctl::dataset
