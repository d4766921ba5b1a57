#include "pretrained/vit_names.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::pretrained {
namespace {

using Names = std::pair<std::string_view, std::string_view>;  // here, in transformers

/// The names outside blocks. Of several names in transformers the first is the one that is written.
constexpr std::array<Names, 20> kOutside = {{
    {"cls_token", "vit.embeddings.cls_token"},
    {"cls_token", "vision_model.embeddings.class_embedding"},
    {"dist_token", "vit.embeddings.distillation_token"},
    {"pos_embed", "vit.embeddings.position_embeddings"},
    {"pos_embed", "vision_model.embeddings.position_embedding.weight"},
    {"patch_embed.proj.weight", "vit.embeddings.patch_embeddings.projection.weight"},
    {"patch_embed.proj.weight", "vision_model.embeddings.patch_embedding.weight"},
    {"patch_embed.proj.bias", "vit.embeddings.patch_embeddings.projection.bias"},
    {"norm_pre.weight", "vision_model.pre_layrnorm.weight"},
    {"norm_pre.bias", "vision_model.pre_layrnorm.bias"},
    {"norm.weight", "vit.layernorm.weight"},
    {"norm.weight", "vision_model.post_layernorm.weight"},
    {"norm.bias", "vit.layernorm.bias"},
    {"norm.bias", "vision_model.post_layernorm.bias"},
    {"head.weight", "classifier.weight"},
    {"head.weight", "cls_classifier.weight"},
    {"head.bias", "classifier.bias"},
    {"head.bias", "cls_classifier.bias"},
    {"head_dist.weight", "distillation_classifier.weight"},
    {"head_dist.bias", "distillation_classifier.bias"},
}};

constexpr std::string_view kBlocks = "blocks.";
constexpr std::array<std::string_view, 3> kLayers = {"vit.encoder.layer.", "vit.layers.",  // versions 4 and 5
                                                     "vision_model.encoder.layers."};

/// The names inside a block. Of several names in transformers the first is the one that is written.
constexpr std::array<Names, 11> kInside = {{
    {"norm1.", "layernorm_before."},
    {"norm1.", "layer_norm1."},
    {"norm2.", "layernorm_after."},
    {"norm2.", "layer_norm2."},
    {"attn.proj.", "attention.output.dense."},
    {"attn.proj.", "attention.o_proj."},
    {"attn.proj.", "self_attn.out_proj."},
    {"mlp.fc1.", "intermediate.dense."},
    {"mlp.fc1.", "mlp.fc1."},
    {"mlp.fc2.", "output.dense."},
    {"mlp.fc2.", "mlp.fc2."},
}};

constexpr std::string_view kJoined = "attn.qkv.";
using Apart = std::array<std::string_view, 3>;
/// Names of query, key and value. The first are those that are written.
constexpr std::array<Apart, 3> kApart = {{
    {"attention.attention.query.", "attention.attention.key.", "attention.attention.value."},
    {"attention.q_proj.", "attention.k_proj.", "attention.v_proj."},
    {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."},
}};

/// Splits "blocks.3.norm1.weight" into {"3.", "norm1.weight"}.
std::optional<std::pair<std::string, std::string>> inside(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  return std::pair(std::string(name.substr(0, dot + 1)), std::string(name.substr(dot + 1)));
}

/// Returns the place of the query, key or value (0 to 2), and the rest of the name.
std::optional<std::pair<std::size_t, std::string>> part_of_qkv(std::string_view name) {
  for (const Apart& apart : kApart)
    for (std::size_t i = 0; i < apart.size(); ++i)
      if (name.starts_with(apart[i])) return std::pair(i, std::string(name.substr(apart[i].size())));
  return std::nullopt;
}

/// Returns whether the parts have one shape: in a damaged file they may be missing, or differ.
bool fit_together(const std::array<at::Tensor, 3>& parts) {
  for (const at::Tensor& part : parts)
    if (!part.defined() || part.dim() == 0 || part.sizes() != parts[0].sizes()) return false;
  return true;
}

/// Returns our name, or the name itself.
std::string renamed_from(const std::string& name) {
  for (const auto& [here, there] : kOutside)
    if (name == there) return std::string(here);
  for (const std::string_view layers : kLayers) {
    const auto block = inside(name, layers);
    if (!block) continue;
    for (const auto& [here, there] : kInside)
      if (block->second.starts_with(there))
        return std::string(kBlocks) + block->first + std::string(here) + block->second.substr(there.size());
  }
  return name;
}

/// Returns the name as ViT has it in a network with a classifier. DeiT has another prefix; a network that is saved
/// without a classifier has none.
std::string with_vit_prefix(const std::string& name) {
  constexpr std::string_view kDeit = "deit.";
  if (name.starts_with(kDeit)) return "vit." + name.substr(kDeit.size());
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  constexpr std::array<std::string_view, 6> kClip = {"embeddings.class_embedding",
                                                     "embeddings.patch_embedding.",
                                                     "embeddings.position_embedding.",
                                                     "encoder.layers.",
                                                     "pre_layrnorm.",
                                                     "post_layernorm."};
  if (std::any_of(kClip.begin(), kClip.end(), begins)) return "vision_model." + name;
  constexpr std::array<std::string_view, 4> kVit = {"embeddings.", "encoder.layer.", "layernorm.", "layers."};
  return std::any_of(kVit.begin(), kVit.end(), begins) ? "vit." + name : name;
}

/// Returns the tensor in our shape. CLIP's class token and positions lack the dims of a batch.
at::Tensor reshaped(const std::string& name, const at::Tensor& tensor) {
  if (name == "vision_model.embeddings.class_embedding") return tensor.reshape({1, 1, -1});
  return name == "vision_model.embeddings.position_embedding.weight" ? tensor.unsqueeze(0) : tensor;
}

/// Returns the name that DeiT has in the place of ViT's.
std::string deit_name(const std::string& name, bool has_teacher) {
  if (name.starts_with("vit.")) return "deit." + name.substr(4);
  return has_teacher && name.starts_with("classifier.") ? "cls_" + name : name;
}

checkpoint::TensorMap with_vit_names(const checkpoint::TensorMap& tensors) {
  checkpoint::TensorMap renamed;
  for (const auto& [name, tensor] : tensors) {
    const auto outside =
        std::find_if(kOutside.begin(), kOutside.end(), [&](const Names& names) { return names.first == name; });
    if (outside != kOutside.end()) renamed[std::string(outside->second)] = tensor;
    const auto block = inside(name, kBlocks);
    if (!block) continue;
    const std::string layer = std::string(kLayers[0]) + block->first;
    if (block->second.starts_with(kJoined)) {
      const std::vector<at::Tensor> parts = tensor.chunk(3, 0);
      for (std::size_t i = 0; i < parts.size(); ++i)
        renamed[layer + std::string(kApart[0][i]) + block->second.substr(kJoined.size())] = parts[i].contiguous();
    }
    for (const auto& [here, there] : kInside)
      if (block->second.starts_with(here)) {
        renamed[layer + std::string(there) + block->second.substr(here.size())] = tensor;
        break;
      }
  }
  return renamed;
}

}  // namespace

checkpoint::TensorMap vit_to_transformers(const model::VitConfig& config, const checkpoint::TensorMap& tensors) {
  const checkpoint::TensorMap renamed = with_vit_names(tensors);
  if (!config.distillation_token) return renamed;
  checkpoint::TensorMap of_deit;
  for (const auto& [name, tensor] : renamed)
    of_deit[deit_name(name, config.pool == model::VitPool::distilled)] = tensor;
  return of_deit;
}

checkpoint::TensorMap vit_from_transformers(const checkpoint::TensorMap& tensors) {
  checkpoint::TensorMap renamed;
  std::map<std::string, std::array<at::Tensor, 3>> apart;  // by the joined tensor's name
  for (const auto& [bare_name, tensor] : tensors) {
    const std::string name = with_vit_prefix(bare_name);
    bool is_part = false;
    for (const std::string_view layers : kLayers) {
      const auto block = inside(name, layers);
      const auto part = block ? part_of_qkv(block->second) : std::nullopt;
      if (!part) continue;
      apart[std::string(kBlocks) + block->first + std::string(kJoined) + part->second][part->first] = tensor;
      is_part = true;
    }
    if (!is_part) renamed[renamed_from(name)] = reshaped(name, tensor);
  }
  for (const auto& [name, parts] : apart)
    if (fit_together(parts)) renamed[name] = at::cat({parts[0], parts[1], parts[2]}, 0);
  return renamed;
}

}  // namespace trainctl::pretrained
