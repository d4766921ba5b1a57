#include "pretrained/state_dict_adapter.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "pretrained/vit_names.h"

namespace trainctl::pretrained {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes = {"bert.", "transformer.", "model."};

/// The same tensor by two names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kShared = {{
    {"lm_head.weight", "transformer.wte.weight"},
    {"lm_head.weight", "model.embed_tokens.weight"},
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    {"decoder.weight", "encoder.weight"},
}};

std::set<std::string> names_in(model::Model& model) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name, model::Slot&) { names.insert(name); };
  model.visit_parameters(add);
  model.visit_buffers(add);
  return names;
}

/// TensorFlow's names, in the first published BERTs.
std::string with_weight_and_bias(const std::string& name) {
  if (name.ends_with("LayerNorm.gamma")) return name.substr(0, name.size() - 5) + "weight";
  if (name.ends_with("LayerNorm.beta")) return name.substr(0, name.size() - 4) + "bias";
  return name;
}

std::string name_here(const std::string& published, const std::set<std::string>& here) {
  const std::string name = with_weight_and_bias(published);
  if (here.contains(name)) return name;
  for (const std::string_view prefix : kPrefixes)
    if (std::string prefixed = std::string(prefix) + name; here.contains(prefixed)) return prefixed;
  return name;
}

}  // namespace

checkpoint::TensorMap as_named_here(const checkpoint::TensorMap& published, model::Model& model) {
  const std::set<std::string> here = names_in(model);
  const bool is_vit = here.contains("patch_embed.proj.weight");
  checkpoint::TensorMap tensors;
  for (const auto& [name, tensor] : is_vit ? vit_from_transformers(published) : published) {
    const std::string own = name_here(name, here);
    // Where a file has both names, the exact one is meant; the other stays what it is called.
    tensors[published.contains(own) ? name : own] = tensor;
  }
  return tensors;
}

std::vector<std::string> shared_with(std::string_view name) {
  std::vector<std::string> others;
  for (const auto& [output, input] : kShared) {
    if (name == output) others.emplace_back(input);
    if (name == input) others.emplace_back(output);
  }
  return others;
}

bool is_of_head(std::string_view name) {
  constexpr std::array<std::string_view, 8> kHeads = {"classifier.", "bert.pooler.", "pooler.", "cls.",
                                                      "head.",       "fc.",          "score.",  "qa_outputs."};
  return std::any_of(kHeads.begin(), kHeads.end(), [&](std::string_view head) { return name.starts_with(head); });
}

bool is_known_extra(std::string_view name) {
  constexpr std::array<std::string_view, 5> kExtras = {"embeddings.position_ids", "attn.bias", "attn.masked_bias",
                                                       "rotary_emb.inv_freq", "num_batches_tracked"};
  return std::any_of(kExtras.begin(), kExtras.end(), [&](std::string_view extra) { return name.ends_with(extra); });
}

}  // namespace trainctl::pretrained
