// What is to be known of a network beside its config, to describe it to others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::pretrained {

struct ModelInfo {
  std::vector<std::int64_t> input_shape;                // as of InputSpec
  std::int64_t vocab_size = 0;                          // rows of the token embeddings; 0: there are none
  std::int64_t num_outputs = 0;                         // of a classifier; 0: there is none
  dataset::Targets targets = dataset::Targets::labels;  // of the data
  dataset::Standardization labels = {};       // of targets that are values: what outputs are standardized with
  std::vector<std::string> class_names = {};  // empty: they have none
  std::vector<dataset::TransformConfig> transforms = {};  // of images, in evaluation
  std::vector<double> pixel_mean = {};                    // of images' normalisation, one for each channel; empty: none
  std::vector<double> pixel_std = {};
  tokenizer::SpecialTokenIds roles = {};           // of the tokenizer
  std::optional<std::int64_t> decoder_start = {};  // token that a decoder begins with; none: that of padding
  std::optional<std::int32_t> end_of_answer = {};  // that a chat template puts behind an answer
};

/// The sizes that the model has now, whatever `auto` stood in the config.
ModelInfo model_info_of(model::Model& model, const std::vector<std::int64_t>& input_shape);

}  // namespace trainctl::pretrained
