#include "pretrained/transformers_names.h"

#include "pretrained/bert_names.h"
#include "pretrained/llama_names.h"
#include "pretrained/vit_names.h"

namespace trainctl::pretrained {
namespace {

/// Whether transformers has the network under other names. Such a network needs the two functions below.
template <class Network>
constexpr bool kIsRenamed = !Network::traits.transformers_type.value.empty() && !Network::traits.has_transformers_names;

checkpoint::TensorMap to_transformers(const model::BertConfig& config, const checkpoint::TensorMap& tensors) {
  return bert_to_transformers(config, tensors);
}
checkpoint::TensorMap from_transformers(const model::BertConfig& config, const checkpoint::TensorMap& tensors) {
  return bert_from_transformers(config, tensors);
}

checkpoint::TensorMap to_transformers(const model::VitConfig& config, const checkpoint::TensorMap& tensors) {
  return vit_to_transformers(config, tensors);
}
checkpoint::TensorMap from_transformers(const model::VitConfig&, const checkpoint::TensorMap& tensors) {
  return vit_from_transformers(tensors);
}

checkpoint::TensorMap to_transformers(const model::LlamaConfig& config, const checkpoint::TensorMap& tensors) {
  return config.fused_projections ? with_fused_projections(tensors) : tensors;
}
checkpoint::TensorMap from_transformers(const model::LlamaConfig& config, const checkpoint::TensorMap& tensors) {
  return with_separate_projections(tensors, config);
}

}  // namespace

checkpoint::TensorMap renamed_to_transformers(const checkpoint::TensorMap& tensors,
                                              const model::NetworkConfig& network) {
  return network.visit([&]<class Network>(const Network& config) {
    if constexpr (kIsRenamed<Network>) return to_transformers(config, tensors);
    return tensors;
  });
}

checkpoint::TensorMap renamed_from_transformers(const checkpoint::TensorMap& tensors,
                                                const model::NetworkConfig& network) {
  return network.visit([&]<class Network>(const Network& config) {
    if constexpr (kIsRenamed<Network>) return from_transformers(config, tensors);
    return tensors;
  });
}

}  // namespace trainctl::pretrained
