#include "pretrained/state_dict_adapter.h"

#include <algorithm>
#include <array>
#include <set>

#include "pretrained/transformers_names.h"

namespace trainctl::pretrained {
namespace {

std::set<std::string> names_in(model::Model& model) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name, model::TensorDecl&) { names.insert(name); };
  model.visit_parameters(add);
  model.visit_buffers(add);
  return names;
}

/// Renames the gamma and beta of TensorFlow, which the first published BERTs have.
std::string with_weight_and_bias(const std::string& name) {
  if (name.ends_with("LayerNorm.gamma")) return name.substr(0, name.size() - 5) + "weight";
  if (name.ends_with("LayerNorm.beta")) return name.substr(0, name.size() - 4) + "bias";
  return name;
}

std::string name_here(const std::string& published, const std::set<std::string>& here) {
  const std::string name = with_weight_and_bias(published);
  if (here.contains(name)) return name;
  for (const model::NetworkKind& network : model::kNetworkKinds)
    if (std::string prefixed = std::string(*network.traits->transformers_prefix) + name; here.contains(prefixed))
      return prefixed;
  return name;
}

}  // namespace

checkpoint::TensorMap as_named_here(const checkpoint::TensorMap& published, const model::NetworkConfig& network,
                                    model::Model& model) {
  const std::set<std::string> here = names_in(model);
  checkpoint::TensorMap tensors;
  for (const auto& [name, tensor] : renamed_from_transformers(published, network)) {
    const std::string own = name_here(name, here);
    // Where a file has both names, the exact one is meant; the other stays what it is called.
    tensors[published.contains(own) ? name : own] = tensor;
  }
  return tensors;
}

std::vector<std::string> shared_with(std::string_view name) {
  std::vector<std::string> others;
  const auto add = [&](std::string_view output, std::string_view input) {
    if (output.empty()) return;
    if (name == output) others.emplace_back(input);
    if (name == input) others.emplace_back(output);
  };
  for (const model::NetworkKind& network : model::kNetworkKinds)
    add(network.traits->tied_output, network.traits->embedding);
  add("cls.predictions.decoder.bias", "cls.predictions.bias");
  return others;
}

bool is_of_head(std::string_view name) {
  // Heads of published files, whether or not a network here has them.
  constexpr std::array<std::string_view, 8> kHeads = {"classifier.", "bert.pooler.", "pooler.", "cls.",
                                                      "head.",       "fc.",          "score.",  "qa_outputs."};
  const auto begins = [&](std::string_view head) { return name.starts_with(head); };
  const auto is_classifier = [&](const model::NetworkKind& network) {
    const std::string_view weight = *network.traits->classifier;
    return !weight.empty() && begins(weight.substr(0, weight.rfind('.') + 1));
  };
  return std::any_of(kHeads.begin(), kHeads.end(), begins) ||
         std::any_of(model::kNetworkKinds.begin(), model::kNetworkKinds.end(), is_classifier);
}

bool is_known_extra(std::string_view name) {
  constexpr std::array<std::string_view, 5> kExtras = {"embeddings.position_ids", "attn.bias", "attn.masked_bias",
                                                       "rotary_emb.inv_freq", "num_batches_tracked"};
  return std::any_of(kExtras.begin(), kExtras.end(), [&](std::string_view extra) { return name.ends_with(extra); });
}

}  // namespace trainctl::pretrained
