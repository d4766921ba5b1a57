#include "exporters/signature.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "core/error.h"

namespace trainctl::exporters {
namespace {

GraphInput tokens(const char* name, InputRole role) {
  return {.name = name, .role = role, .dtype = at::kLong, .shape = {kBatchAxis, kSequenceAxis}};
}

}  // namespace

Signature signature_of(const model::NetworkConfig& network, const pretrained::ModelInfo& facts) {
  if (config::traits_of(network).outputs.value.contains(model::Output::target_tokens))
    throw core::Error("a graph here has one axis of tokens, and " + std::string(network.kind()) +
                      " has two, of sources and of targets")
        .hint("trainctl export without --format writes what transformers reads; Optimum makes ONNX files of that");
  Signature signature;
  signature.labels = facts.labels;
  if (facts.vocab_size > 0) {
    // Without a limit of positions, sequences may be longer than the training data's.
    signature.longest =
        sizes_of(network).max_position_embeddings.value.value_or(std::max<std::int64_t>(facts.input_shape[0], 1 << 16));
    signature.vocab_size = facts.vocab_size;
    signature.inputs.push_back(tokens("input_ids", InputRole::values));
    const model::ModelTraits& traits = config::traits_of(network);
    const bool takes_padding = traits.padding == model::Padding::always ||
                               (traits.padding == model::Padding::in_classification && facts.num_outputs > 0);
    if (takes_padding) signature.inputs.push_back(tokens("attention_mask", InputRole::attention_mask));
    if (traits.has_token_types) signature.inputs.push_back(tokens("token_type_ids", InputRole::token_types));
    return signature;
  }
  GraphInput values{.name = facts.input_shape.size() == 3 ? "images" : "features", .shape = {kBatchAxis}};
  values.shape.insert(values.shape.end(), facts.input_shape.begin(), facts.input_shape.end());
  signature.inputs.push_back(std::move(values));
  return signature;
}

model::ModelInput model_input(const Signature& signature, const std::vector<at::Tensor>& inputs) {
  model::ModelInput input;
  for (std::size_t i = 0; i < inputs.size(); ++i) switch (signature.inputs[i].role) {
      case InputRole::values:
        input.values = inputs[i];
        break;
      case InputRole::attention_mask:
        input.key_mask = inputs[i].ne(0);
        break;
      case InputRole::token_types:
        input.token_types = inputs[i];
        break;
    }
  return input;
}

std::vector<at::Tensor> graph_inputs(const Signature& signature, const model::ModelInput& input) {
  std::vector<at::Tensor> inputs;
  for (const GraphInput& declared : signature.inputs) switch (declared.role) {
      case InputRole::values:
        inputs.push_back(input.values.to(declared.dtype).contiguous());
        break;
      case InputRole::attention_mask:
        inputs.push_back(input.key_mask.defined() ? input.key_mask.to(at::kLong) : at::ones_like(input.values));
        break;
      case InputRole::token_types:
        inputs.push_back(input.token_types.defined() ? input.token_types : at::zeros_like(input.values));
        break;
    }
  return inputs;
}

}  // namespace trainctl::exporters
