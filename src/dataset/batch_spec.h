// What batches will look like, as far as the config says: no sample is read, at most the header of a file or a
// tokenizer.
#pragma once

#include <cstdint>

#include "core/error.h"
#include "dataset/dataset.h"

namespace trainctl::dataset {

struct BatchSpec {
  SampleSpec spec;
  std::int64_t num_samples = 0;    // 0: not known
  std::int64_t input_bytes = 0;    // of a sample in the loader's buffers
  std::int64_t target_count = 0;   // likewise, int64 each
  std::int64_t batches_ahead = 0;  // that the loader has ready before it knows how fast they are used
  double target_share = 1;         // of a text's tokens, that are asked for
  bool has_token_types = false;
  bool has_padding = false;
  bool has_documents = false;
  std::int64_t text_length = 0;  // tokens, of the longest text; 0: as long as it may be
};

/// Sizes that the model's config or opened data state; 0: they are not known.
struct BatchSpecHints {
  std::int64_t num_classes = 0;
  std::int64_t vocab_size = 0;
  std::int64_t num_columns = 0;  // inputs of a table
  /// Two classes and eight columns stand for those that only the data tells: enough to build a network.
  bool assumes_sizes = false;
  std::int64_t longest_text = 0;
};

/// The config leaves open what only the data tells.
class OnlyDataTells : public core::Error {
 public:
  OnlyDataTells(const std::string& what, const std::string& key);
};

/// Throws OnlyDataTells, or Error where a file that it needs can't be read.
BatchSpec outline(const DatasetConfig& config, const LoaderOptions& options, const BatchSpecHints& hints);

}  // namespace trainctl::dataset
