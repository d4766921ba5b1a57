// What an exported network is called with: its inputs by name, and which of their axes are free.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/standardization.h"
#include "model/config.h"
#include "model/model.h"
#include "pretrained/model_info.h"

namespace trainctl::exporters {

/// values: images, rows of a table, or token ids. attention_mask: int64, 0 at padding, which is behind the tokens.
enum class InputRole { values, attention_mask, token_types };

/// Sizes of free axes.
inline constexpr std::int64_t kBatchAxis = -1;
inline constexpr std::int64_t kSequenceAxis = -2;

struct GraphInput {
  std::string name;  // images, features, or as transformers calls them: input_ids, attention_mask, token_type_ids
  InputRole role = InputRole::values;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;  // kBatchAxis, kSequenceAxis, or a size
};

struct Signature {
  std::vector<GraphInput> inputs;
  std::string output = "logits";
  std::int64_t longest = 0;     // tokens that a sequence may have; 0: these are no sequences
  std::int64_t vocab_size = 0;  // ids are below this
  /// The graph restores what the network gives standardized: its output is then in the labels' units, in fp64.
  dataset::Standardization labels{};
  bool is_sequence() const { return longest > 0; }
  bool restores_labels() const { return labels != dataset::kAsTheyAre; }
};

Signature signature_of(const model::NetworkConfig& network, const pretrained::ModelInfo& facts);

/// The model's input from the graph's, in the signature's order.
model::ModelInput model_input(const Signature& signature, const std::vector<at::Tensor>& inputs);

/// The graph's inputs from a model's: masks and token types that it leaves out are filled in. Its documents are lost.
std::vector<at::Tensor> graph_inputs(const Signature& signature, const model::ModelInput& input);

}  // namespace trainctl::exporters
