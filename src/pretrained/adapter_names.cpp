#include "pretrained/adapter_names.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/overloaded.h"
#include "model/lora.h"
#include "pretrained/transformers_names.h"

namespace trainctl::pretrained {
namespace {

using checkpoint::TensorMap;

constexpr const char* kA = ".lora_A.weight";
constexpr const char* kB = ".lora_B.weight";

/// The two matrices of an adapter; undefined if the layer has none.
struct Adapter {
  at::Tensor a;  // [rank, in]
  at::Tensor b;  // [out, rank]
};

/// Adapters of the matrices that one matrix joins, one below the other, and the rows of each matrix.
struct Parts {
  std::vector<Adapter> adapters;
  std::vector<std::int64_t> rows;
};

std::vector<at::Tensor> matrices_a(const Parts& parts) {
  std::vector<at::Tensor> found;
  for (const Adapter& part : parts.adapters)
    if (part.a.defined()) found.push_back(part.a);
  return found;
}

/// Returns whether one A serves all parts.
bool share_one_a(const Parts& parts) {
  const std::vector<at::Tensor> found = matrices_a(parts);
  return std::all_of(found.begin(), found.end(), [&](const at::Tensor& a) { return a.equal(found.front()); });
}

/// Returns the rank that an adapter of the joined matrix needs.
std::int64_t joined_rank(const Parts& parts) {
  std::int64_t rank = 0;
  for (const at::Tensor& a : matrices_a(parts)) {
    rank += a.size(0);
    if (share_one_a(parts)) break;
  }
  return rank;
}

/// Returns the adapter with zeros up to the rank, which add nothing.
Adapter padded(const Adapter& adapter, std::int64_t rank) {
  const std::int64_t missing = rank - adapter.a.size(0);
  if (missing <= 0) return adapter;
  return {.a = at::constant_pad_nd(adapter.a, {0, 0, 0, missing}), .b = at::constant_pad_nd(adapter.b, {0, missing})};
}

/// Returns the adapter of the joined matrix. If the parts have one A, it keeps this A, and B has the rows of all parts.
/// If their A differ, A has the rows of all, and B a block for each part.
Adapter joined(const Parts& parts) {
  const bool shares = share_one_a(parts);
  const std::int64_t rank = joined_rank(parts);
  std::vector<at::Tensor> blocks;
  std::int64_t column = 0;
  for (std::size_t i = 0; i < parts.adapters.size(); ++i) {
    const Adapter& part = parts.adapters[i];
    at::Tensor block = at::zeros({parts.rows[i], rank});
    if (part.b.defined()) {
      block.narrow(1, column, part.b.size(1)).copy_(part.b);
      if (!shares) column += part.b.size(1);
    }
    blocks.push_back(block);
  }
  const std::vector<at::Tensor> a = matrices_a(parts);
  return {.a = shares ? a.front() : at::cat(a), .b = at::cat(blocks)};
}

/// A pattern of names, of which the second group is a part of a joined matrix, and the third lora_A or lora_B.
struct PartPattern {
  std::regex pattern;
  std::vector<std::string> parts;  // what the second group may be, in the order in which they are joined
  std::string whole;               // in place of the part
};

using PartsByName = std::map<std::string, Parts>;  // by the joined matrix's name

/// Moves the tensors that fit the pattern from `tensors` to the parts.
PartsByName take_parts(TensorMap& tensors, const PartPattern& joint) {
  PartsByName found;
  for (auto one = tensors.begin(); one != tensors.end();) {
    std::smatch match;
    if (!std::regex_match(one->first, match, joint.pattern)) {
      ++one;
      continue;
    }
    const auto place = std::find(joint.parts.begin(), joint.parts.end(), match[2].str());
    Parts& parts = found[match[1].str() + joint.whole];
    parts.adapters.resize(joint.parts.size());
    Adapter& part = parts.adapters[static_cast<std::size_t>(place - joint.parts.begin())];
    (match[3] == "A" ? part.a : part.b) = one->second;
    one = tensors.erase(one);
  }
  for (const auto& [name, parts] : found)
    for (const Adapter& part : parts.adapters)
      if (part.a.defined() != part.b.defined() ||
          (part.a.defined() && (part.a.dim() != 2 || part.b.dim() != 2 || part.a.size(0) != part.b.size(1))))
        throw core::Error("an adapter of " + name + " has no lora_A and lora_B of one rank");
  return found;
}

void put(TensorMap& tensors, const std::string& name, const Adapter& adapter) {
  tensors[name + kA] = adapter.a.contiguous();
  tensors[name + kB] = adapter.b.contiguous();
}

/// Returns the names of modules without adapters: "x" for "x.lora_A.weight".
std::optional<std::string> adapted_module(const std::string& name) {
  const std::string end = kA;
  return name.ends_with(end) ? std::optional(name.substr(0, name.size() - end.size())) : std::nullopt;
}

/// The matrices that Phi-3 joins, and the rows of each.
std::vector<std::pair<PartPattern, std::vector<std::int64_t>>> fused_joints(const model::LlamaConfig& config) {
  const std::int64_t key = config.key_value_heads() * config.size_of_head();
  return {
      {{std::regex(R"((.*\.self_attn\.)([qkv]_proj)\.lora_([AB])\.weight)"),
        {"q_proj", "k_proj", "v_proj"},
        "qkv_proj"},
       {config.num_heads * config.size_of_head(), key, key}},
      {{std::regex(R"((.*\.mlp\.)(gate_proj|up_proj)\.lora_([AB])\.weight)"), {"gate_proj", "up_proj"}, "gate_up_proj"},
       {config.inner_size(), config.inner_size()}}};
}

NamedAdapters fused(const NamedAdapters& adapters, const model::LlamaConfig& config) {
  NamedAdapters all = adapters;
  PartsByName joints;
  for (const auto& [joint, rows] : fused_joints(config))
    for (auto& [name, parts] : take_parts(all.tensors, joint)) {
      parts.rows = rows;
      all.rank = std::max(all.rank, joined_rank(parts));
      joints[name] = parts;
    }
  const TensorMap others = all.tensors;
  for (const auto& [name, tensor] : others)
    if (const auto module = adapted_module(name))
      put(all.tensors, *module, padded({.a = tensor, .b = others.at(*module + kB)}, all.rank));
  for (const auto& [name, parts] : joints) put(all.tensors, name, padded(joined(parts), all.rank));
  return all;
}

/// Gives each of the matrices that Phi-3 joins the A of the file, and its own rows of B.
TensorMap separate(const TensorMap& adapters, const model::LlamaConfig& config) {
  TensorMap separated = adapters;
  for (const auto& [joint, rows] : fused_joints(config))
    for (const auto& [name, tensor] : adapters) {
      const std::size_t place = name.find("." + joint.whole + ".lora_");
      if (place == std::string::npos) continue;
      const std::string before = name.substr(0, place + 1);
      const std::string after = name.substr(place + 1 + joint.whole.size());
      std::int64_t begin = 0;
      std::int64_t all_rows = 0;
      for (const std::int64_t count : rows) all_rows += count;
      const bool is_b = after == kB;
      if (is_b && (tensor.dim() != 2 || tensor.size(0) != all_rows)) continue;  // told as a tensor that doesn't fit
      for (std::size_t i = 0; i < rows.size(); ++i) {
        separated[before + joint.parts[i] + after] = is_b ? tensor.narrow(0, begin, rows[i]) : tensor;
        begin += rows[i];
      }
      separated.erase(name);
    }
  return separated;
}

/// Replaces the first `from` in the name, if there is one.
void replace(std::string& name, const std::string& from, const std::string& to) {
  if (const std::size_t place = name.find(from); place != std::string::npos) name.replace(place, from.size(), to);
}

/// Returns the name in transformers 5 for the name that files of weights have, which are those of version 4.
std::string vit_name_in_use(std::string name) {
  replace(name, ".encoder.layer.", ".layers.");
  replace(name, ".attention.attention.query.", ".attention.q_proj.");
  replace(name, ".attention.attention.key.", ".attention.k_proj.");
  replace(name, ".attention.attention.value.", ".attention.v_proj.");
  replace(name, ".attention.output.dense.", ".attention.o_proj.");
  replace(name, ".intermediate.dense.", ".mlp.fc1.");
  replace(name, ".output.dense.", ".mlp.fc2.");
  return name;
}

NamedAdapters vit_adapters(const NamedAdapters& adapters, const model::VitConfig& config) {
  static const std::regex qkv(R"(blocks\.(\d+)\.attn\.qkv\.lora_([AB])\.weight)");
  TensorMap rest;
  NamedAdapters all{.tensors = {}, .rank = adapters.rank};
  for (const auto& [name, tensor] : adapters.tensors) {
    std::smatch match;
    if (!std::regex_match(name, match, qkv)) {
      rest[name] = tensor;
      continue;
    }
    const bool is_a = match[2] == "A";
    const std::vector<at::Tensor> rows = is_a ? std::vector<at::Tensor>(3, tensor) : tensor.chunk(3, 0);
    const std::string network = config.distillation_token ? "deit" : "vit";
    const std::string block = network + ".layers." + match[1].str() + ".attention.";
    const std::array<std::string, 3> parts = {"q_proj", "k_proj", "v_proj"};
    for (std::size_t i = 0; i < parts.size(); ++i)
      all.tensors[block + parts[i] + (is_a ? kA : kB)] = rows[i].contiguous();
  }
  for (const auto& [name, tensor] : renamed_to_transformers(rest, config)) all.tensors[vit_name_in_use(name)] = tensor;
  return all;
}

TensorMap vit_adapters_here(const TensorMap& adapters, std::int64_t rank) {
  TensorMap here;
  TensorMap rest;
  static const std::regex qkv(R"((?:.*\.)?(?:layers|layer)\.(\d+)\.(?:attention\.attention|attention|self_attn)\.)"
                              R"(((?:query|key|value)|(?:[qkv]_proj))\.lora_([AB])\.weight)");
  for (const auto& [name, tensor] : adapters) {
    std::smatch match;
    if (!std::regex_match(name, match, qkv)) {
      rest[name] = tensor;
      continue;
    }
    rest["blocks." + match[1].str() + ".attn." + match[2].str().substr(0, 1) + ".lora_" + match[3].str() + ".weight"] =
        tensor;
  }
  const PartPattern joint{std::regex(R"((blocks\.\d+\.attn\.)([qkv])\.lora_([AB])\.weight)"), {"q", "k", "v"}, "qkv"};
  for (auto& [name, parts] : take_parts(rest, joint)) {
    const auto present = std::find_if(parts.adapters.begin(), parts.adapters.end(),
                                      [](const Adapter& part) { return part.b.defined(); });
    parts.rows.assign(parts.adapters.size(), present->b.size(0));
    const std::int64_t needed = joined_rank(parts);
    if (needed > rank)
      throw core::Error("the adapters of query, key and value need a rank of " + std::to_string(needed) +
                        " in the one matrix that they are here, and model.lora.rank is " + std::to_string(rank))
          .hint("leave model.lora.rank and alpha out, so that adapter_config.json gives them");
    put(here, name, padded(joined(parts), rank));
  }
  for (const auto& [name, tensor] : rest) {
    const auto module = adapted_module(name);
    if (module && rest.contains(*module + kB))
      put(here, *module, padded({.a = tensor, .b = rest.at(*module + kB)}, rank));
    else if (!here.contains(name))
      here[name] = tensor;
  }
  return here;
}

}  // namespace

NamedAdapters adapters_to_transformers(const NamedAdapters& adapters, const TensorMap& weights,
                                       const model::NetworkConfig& network) {
  return network.visit(core::Overloaded{
      [&](const model::VitConfig& vit) { return vit_adapters(adapters, vit); },
      [&](const model::LlamaConfig& llama) { return llama.fused_projections ? fused(adapters, llama) : adapters; },
      [&](const auto&) {
        TensorMap all = weights;
        all.insert(adapters.tensors.begin(), adapters.tensors.end());
        NamedAdapters renamed{.tensors = {}, .rank = adapters.rank};
        for (const auto& [name, tensor] : renamed_to_transformers(all, network))
          if (model::is_adapter(name)) renamed.tensors[name] = tensor;
        return renamed;
      }});
}

TensorMap adapters_from_transformers(const TensorMap& adapters, const model::NetworkConfig& network,
                                     std::int64_t rank) {
  return network.visit(core::Overloaded{
      [&](const model::VitConfig&) { return vit_adapters_here(adapters, rank); },
      [&](const model::LlamaConfig& llama) { return llama.fused_projections ? separate(adapters, llama) : adapters; },
      [&](const auto&) { return adapters; }});
}

TensorMap weights_in_use(const TensorMap& tensors, const model::NetworkConfig& network) {
  const TensorMap there = renamed_to_transformers(tensors, network);
  return network.visit(core::Overloaded{[&](const model::VitConfig&) {
                                          TensorMap renamed;
                                          for (const auto& [name, tensor] : there)
                                            renamed[vit_name_in_use(name)] = tensor;
                                          return renamed;
                                        },
                                        [&](const auto&) { return there; }});
}

}  // namespace trainctl::pretrained
