#include "exporters/signature.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace trainctl::exporters {
namespace {

/// Tokens that the network has positions for; of the data where it has no limit.
std::int64_t longest_sequence(const model::NetworkConfig& network, const pretrained::ModelInfo& facts) {
  return network.visit([&](const auto& config) -> std::int64_t {
    if constexpr (requires { config.max_position_embeddings; }) return config.max_position_embeddings;
    return std::max<std::int64_t>(facts.input_shape[0], 1 << 16);
  });
}

GraphInput tokens(const char* name, InputRole role) {
  return {.name = name, .role = role, .dtype = at::kLong, .shape = {kBatchAxis, kSequenceAxis}};
}

}  // namespace

Signature signature_of(const model::NetworkConfig& network, const pretrained::ModelInfo& facts) {
  Signature signature;
  if (facts.vocab_size > 0) {
    signature.longest = longest_sequence(network, facts);
    signature.vocab_size = facts.vocab_size;
    signature.inputs.push_back(tokens("input_ids", InputRole::values));
    const bool is_bert = network.get_if<model::BertConfig>() != nullptr;
    const bool is_classifier = network.get_if<model::LstmConfig>() != nullptr && facts.num_outputs > 0;
    if (is_bert || is_classifier) signature.inputs.push_back(tokens("attention_mask", InputRole::attention_mask));
    if (is_bert) signature.inputs.push_back(tokens("token_type_ids", InputRole::token_types));
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
