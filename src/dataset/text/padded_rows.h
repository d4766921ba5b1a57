// Stored rows of tokens as batches that are as wide as their longest row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataset/dataset.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"

namespace trainctl::dataset {

struct PaddedRows {
  std::int64_t max_length = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad = 0;
  Targets targets = Targets::labels;                // values; token_labels of labelled_tokens
  LabelScaling label_scaling = LabelScaling::none;  // of values
  std::optional<Standardization> known_labels{};    // those that a trained model learned; none: see label_scaling
  Split split{};                                    // of the training rows
};

/// Every row of stores of labelled_rows or labelled_tokens is a sample. A split divides training rows by a hash of
/// their tokens. Batches have a key mask where rows differ in
/// length.
Sources padded_sources(const PreparedStores& stores, const PaddedRows& rows);

}  // namespace trainctl::dataset
