#include "pretrained/llama_names.h"

#include <ATen/ops/cat.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::pretrained {
namespace {

/// Matrices of a layer that one of transformers' has, in order.
struct Fused {
  std::string name;
  std::vector<std::string> parts;
};

const std::array<Fused, 2>& fused_projections() {
  static const std::array<Fused, 2> all{
      Fused{"self_attn.qkv_proj.", {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."}},
      Fused{"mlp.gate_up_proj.", {"mlp.gate_proj.", "mlp.up_proj."}}};
  return all;
}

/// Returns the name with `from` replaced; none if it isn't there.
std::optional<std::string> replaced(const std::string& name, const std::string& from, const std::string& to) {
  const std::size_t place = name.find(from);
  if (place == std::string::npos) return std::nullopt;
  return name.substr(0, place) + to + name.substr(place + from.size());
}

/// Returns the rows of each part.
std::vector<std::int64_t> rows_of(const Fused& fused, const model::LlamaConfig& config) {
  const std::int64_t key = config.key_value_heads() * config.size_of_head();
  if (fused.parts.size() == 2) return {config.inner_size(), config.inner_size()};
  return {config.num_heads * config.size_of_head(), key, key};
}

}  // namespace

checkpoint::TensorMap with_fused_projections(const checkpoint::TensorMap& tensors) {
  checkpoint::TensorMap joined = tensors;
  for (const Fused& fused : fused_projections())
    for (const auto& [name, tensor] : tensors) {
      const std::optional<std::string> whole = replaced(name, fused.parts.front(), fused.name);
      if (!whole) continue;
      std::vector<at::Tensor> parts;
      for (const std::string& part : fused.parts) {
        const std::string own = *replaced(name, fused.parts.front(), part);
        parts.push_back(tensors.at(own));
        joined.erase(own);
      }
      joined[*whole] = at::cat(parts);
    }
  return joined;
}

checkpoint::TensorMap with_separate_projections(const checkpoint::TensorMap& tensors,
                                                const model::LlamaConfig& config) {
  checkpoint::TensorMap separate = tensors;
  for (const Fused& fused : fused_projections())
    for (const auto& [name, tensor] : tensors) {
      if (!replaced(name, fused.name, "")) continue;
      const std::vector<std::int64_t> rows = rows_of(fused, config);
      if (tensor.dim() == 0 || tensor.size(0) != std::accumulate(rows.begin(), rows.end(), std::int64_t{0})) continue;
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        separate[*replaced(name, fused.name, fused.parts[i])] = tensor.narrow(0, begin, rows[i]);
        begin += rows[i];
      }
      separate.erase(name);
    }
  return separate;
}

}  // namespace trainctl::pretrained
