#include "pretrained/state_dict_adapter.h"

#include <algorithm>
#include <array>
#include <map>
#include <regex>

#include "core/error.h"
#include "pretrained/transformers_names.h"

namespace trainctl::pretrained {
namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;  // by name

Shapes shapes_in(model::Model& model) {
  Shapes shapes;
  const auto add = [&](const std::string& name, model::TensorDecl& decl) {
    shapes[name] = decl.shard ? decl.shard->shape : decl.value.sizes().vec();
  };
  model.visit_parameters(add);
  model.visit_buffers(add);
  return shapes;
}

/// Returns the matrix [out, in] as the convolution [out, in, 1, 1] that it is here.
at::Tensor as_convolution(const at::Tensor& tensor, const std::vector<std::int64_t>& shape) {
  const bool is_pointwise = shape.size() == 4 && shape[2] == 1 && shape[3] == 1;
  return is_pointwise && tensor.dim() == 2 ? tensor.unsqueeze(-1).unsqueeze(-1) : tensor;
}

/// Renames the gamma and beta of TensorFlow, which the first published BERTs have.
std::string with_weight_and_bias(const std::string& name) {
  if (name.ends_with("LayerNorm.gamma")) return name.substr(0, name.size() - 5) + "weight";
  if (name.ends_with("LayerNorm.beta")) return name.substr(0, name.size() - 4) + "bias";
  return name;
}

/// Removes what a list of layers adds to names around its branches, and what modules of timm lack: "a.layers.b.weight"
/// and "a.branches.1.b.weight" become "a.b.weight".
std::string without_branches(const std::string& name) {
  static const std::regex branches(R"(\.(layers|branches\.\d+)(?=\.))");
  return std::regex_replace(name, branches, "");
}

/// Returns our names of lists with branches, by the names without them. What two parameters would share is left out.
std::map<std::string, std::string> names_with_branches(const Shapes& here) {
  std::map<std::string, std::string> names;
  for (const auto& [name, shape] : here)
    if (const auto [place, is_new] = names.emplace(without_branches(name), name); !is_new) place->second.clear();
  std::erase_if(names, [](const auto& one) { return one.second.empty() || one.first == one.second; });
  return names;
}

std::string name_here(const std::string& published, const Shapes& here,
                      const std::map<std::string, std::string>& with_branches) {
  const std::string name = with_weight_and_bias(published);
  if (here.contains(name)) return name;
  if (const auto listed = with_branches.find(name); listed != with_branches.end()) return listed->second;
  for (const model::NetworkKind& network : model::kNetworkKinds)
    if (std::string prefixed = std::string(*network.traits->transformers_prefix) + name; here.contains(prefixed))
      return prefixed;
  return name;
}

}  // namespace

checkpoint::TensorMap as_named_here(const checkpoint::TensorMap& published, const model::NetworkConfig& network,
                                    model::Model& model) {
  const Shapes here = shapes_in(model);
  const std::map<std::string, std::string> with_branches = names_with_branches(here);
  checkpoint::TensorMap tensors;
  std::map<std::string, std::string> names;  // in the file, by ours
  for (const auto& [name, tensor] : renamed_from_transformers(published, network)) {
    const std::string own = name_here(name, here, with_branches);
    const auto shape = here.find(own);
    // Where a file has both names, the exact one is meant; the other stays what it is called.
    const std::string& key = published.contains(own) ? name : own;
    const at::Tensor value = shape == here.end() ? tensor : as_convolution(tensor, shape->second);
    const auto [place, is_new] = tensors.emplace(key, value);
    if (is_new)
      names[key] = name;
    else if (place->second.scalar_type() != value.scalar_type() || !place->second.equal(value))
      throw core::Error("the file has " + key + " twice with different values, as " + names.at(key) + " and " + name)
          .hint("remove one of the two from the file");
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
  for (const std::string_view stack : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    add(stack, *model::T5Config::traits.embedding);
  return others;
}

bool is_of_head(std::string_view name) {
  // Heads of published files, whether or not a network here has them.
  constexpr std::array<std::string_view, 11> kHeads = {"classifier.",
                                                       "bert.pooler.",
                                                       "pooler.",
                                                       "cls.",
                                                       "head.",
                                                       "head_dist.",
                                                       "fc.",
                                                       "score.",
                                                       "qa_outputs.",
                                                       "roberta.pooler.",
                                                       "discriminator_predictions."};
  // What CLIP has beside its image tower.
  constexpr std::array<std::string_view, 4> kOfClip = {"visual_projection.", "text_model.", "text_projection.",
                                                       "logit_scale"};
  const auto begins = [&](std::string_view head) { return name.starts_with(head); };
  const auto is_classifier = [&](const model::NetworkKind& network) {
    const std::string_view weight = *network.traits->classifier;
    return !weight.empty() && begins(weight.substr(0, weight.rfind('.') + 1));
  };
  return std::any_of(kHeads.begin(), kHeads.end(), begins) || std::any_of(kOfClip.begin(), kOfClip.end(), begins) ||
         std::any_of(model::kNetworkKinds.begin(), model::kNetworkKinds.end(), is_classifier);
}

bool is_known_extra(std::string_view name) {
  // The last one is in the first published T5s, whose attention to the source has no positions.
  constexpr std::array<std::string_view, 6> kExtras = {
      "embeddings.position_ids", "attn.bias",           "attn.masked_bias",
      "rotary_emb.inv_freq",     "num_batches_tracked", "EncDecAttention.relative_attention_bias.weight"};
  return std::any_of(kExtras.begin(), kExtras.end(), [&](std::string_view extra) { return name.ends_with(extra); });
}

}  // namespace trainctl::pretrained
