// Stored rows of tokens as batches that are as wide as their longest row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataset/dataset.h"
#include "dataset/text/token_store.h"

namespace trainctl {

struct PaddedRows {
  std::shared_ptr<const TokenStore> store;  // of labelled_rows or labelled_tokens
  std::int64_t max_length = 0;              // of its rows
  std::int64_t vocab_size = 0;
  std::int64_t pad = 0;
  Targets targets = Targets::labels;  // values; token_labels of labelled_tokens
};

/// Every row is a sample. Batches have a key mask where rows differ in length.
std::unique_ptr<Source> make_padded_rows(PaddedRows rows);

}  // namespace trainctl
