#include "pretrained/vit_names.h"

#include <ATen/ops/cat.h>

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

constexpr std::array<Names, 8> kOutside = {{
    {"cls_token", "vit.embeddings.cls_token"},
    {"pos_embed", "vit.embeddings.position_embeddings"},
    {"patch_embed.proj.weight", "vit.embeddings.patch_embeddings.projection.weight"},
    {"patch_embed.proj.bias", "vit.embeddings.patch_embeddings.projection.bias"},
    {"norm.weight", "vit.layernorm.weight"},
    {"norm.bias", "vit.layernorm.bias"},
    {"head.weight", "classifier.weight"},
    {"head.bias", "classifier.bias"},
}};

constexpr std::string_view kBlocks = "blocks.";
constexpr std::array<std::string_view, 2> kLayers = {"vit.encoder.layer.", "vit.layers."};  // versions 4 and 5

/// The names inside a block. Of several names in transformers the first is the one that is written.
constexpr std::array<Names, 8> kInside = {{
    {"norm1.", "layernorm_before."},
    {"norm2.", "layernorm_after."},
    {"attn.proj.", "attention.output.dense."},
    {"attn.proj.", "attention.o_proj."},
    {"mlp.fc1.", "intermediate.dense."},
    {"mlp.fc1.", "mlp.fc1."},
    {"mlp.fc2.", "output.dense."},
    {"mlp.fc2.", "mlp.fc2."},
}};

constexpr std::string_view kJoined = "attn.qkv.";
constexpr std::array<std::string_view, 3> kApart = {"attention.attention.query.", "attention.attention.key.",
                                                    "attention.attention.value."};
constexpr std::array<std::string_view, 3> kApart5 = {"attention.q_proj.", "attention.k_proj.", "attention.v_proj."};

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
  for (const auto& apart : {kApart, kApart5})
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

}  // namespace

checkpoint::TensorMap vit_to_transformers(const checkpoint::TensorMap& tensors) {
  checkpoint::TensorMap renamed;
  for (const auto& [name, tensor] : tensors) {
    for (const auto& [here, there] : kOutside)
      if (name == here) renamed[std::string(there)] = tensor;
    const auto block = inside(name, kBlocks);
    if (!block) continue;
    const std::string layer = std::string(kLayers[0]) + block->first;
    if (block->second.starts_with(kJoined)) {
      const std::vector<at::Tensor> parts = tensor.chunk(3, 0);
      for (std::size_t i = 0; i < parts.size(); ++i)
        renamed[layer + std::string(kApart[i]) + block->second.substr(kJoined.size())] = parts[i].contiguous();
    }
    for (const auto& [here, there] : kInside)
      if (block->second.starts_with(here)) {
        renamed[layer + std::string(there) + block->second.substr(here.size())] = tensor;
        break;
      }
  }
  return renamed;
}

checkpoint::TensorMap vit_from_transformers(const checkpoint::TensorMap& tensors) {
  checkpoint::TensorMap renamed;
  std::map<std::string, std::array<at::Tensor, 3>> apart;  // by the joined tensor's name
  for (const auto& [bare_name, tensor] : tensors) {
    // A ViTModel without a classifier has no prefix.
    const bool is_bare = bare_name.starts_with("embeddings.") || bare_name.starts_with("encoder.layer.") ||
                         bare_name.starts_with("layernorm.") || bare_name.starts_with("layers.");
    const std::string name = is_bare ? "vit." + bare_name : bare_name;
    bool is_part = false;
    for (const std::string_view layers : kLayers) {
      const auto block = inside(name, layers);
      const auto part = block ? part_of_qkv(block->second) : std::nullopt;
      if (!part) continue;
      apart[std::string(kBlocks) + block->first + std::string(kJoined) + part->second][part->first] = tensor;
      is_part = true;
    }
    if (!is_part) renamed[renamed_from(name)] = tensor;
  }
  for (const auto& [name, parts] : apart)
    if (fit_together(parts)) renamed[name] = at::cat({parts[0], parts[1], parts[2]}, 0);
  return renamed;
}

}  // namespace trainctl::pretrained
