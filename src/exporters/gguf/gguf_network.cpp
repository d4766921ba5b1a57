#include "exporters/gguf/gguf_network.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "model/llama_families.h"
#include "pretrained/hugging_face_config.h"

namespace trainctl::exporters {
namespace {

using GgufNames = std::vector<std::pair<std::string_view, std::string_view>>;  // ends of names here, and names there

constexpr const char* kLlamaBlocks = "model.layers.";

core::Error not_computable(const std::string& key, const std::string& reason) {
  return core::Error(key + ": llama.cpp can't compute this network: " + reason).hint("--format hf or safetensors");
}

/// Architectures of llama.cpp by the family of transformers.
std::string gguf_architecture(const model::LlamaFamily& family) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kKnown = {{{"llama", "llama"},
                                                                                    {"mistral", "llama"},
                                                                                    {"qwen2", "qwen2"},
                                                                                    {"qwen3", "qwen3"},
                                                                                    {"gemma", "gemma"},
                                                                                    {"gemma2", "gemma2"},
                                                                                    {"gemma3_text", "gemma3"}}};
  std::vector<std::string> types;
  for (const auto& [type, architecture] : kKnown) {
    if (type == family.type) return std::string(architecture);
    types.emplace_back(type);
  }
  throw core::Error("model.kind: GGUF files of " + std::string(family.type) +
                    " aren't written; expected a network of " + core::list_words(types, "or"));
}

/// Returns whether the layers slide as the architecture has it, which no key of the file says: all but each `period`th.
bool slides_by(const model::LlamaConfig& config, std::int64_t period) {
  for (std::int64_t i = 0; i < config.num_layers; ++i)
    if (config.slides(static_cast<std::size_t>(i)) != ((i + 1) % period != 0)) return false;
  return true;
}

void check_windows(const model::LlamaConfig& config, const std::string& architecture) {
  const bool is_later_gemma = architecture == "gemma2" || architecture == "gemma3";
  if (!is_later_gemma) {
    if (config.sliding_window && *config.sliding_window < config.max_position_embeddings)
      throw not_computable("model.sliding_window", "all of its layers see every token; expected null or at least " +
                                                       std::to_string(config.max_position_embeddings));
    return;
  }
  const std::int64_t period = architecture == "gemma2" ? 2 : 6;
  if (!slides_by(config, period))
    throw not_computable("model.layer_types", "all layers slide but each " + std::to_string(period) + "th");
  if (config.query_pre_attn_scalar.value_or(config.size_of_head()) != config.size_of_head())
    throw not_computable("model.query_pre_attn_scalar",
                         "expected the head size, " + std::to_string(config.size_of_head()));
  if (architecture == "gemma3" && config.num_sliding() > 0 && config.rope_local_theta.value_or(0) != 10000)
    throw not_computable("model.rope_local_theta", "expected 10000");
}

void check_computable(const model::LlamaConfig& config, const std::string& architecture) {
  const bool is_gemma = architecture.starts_with("gemma");
  if ((config.activation == model::GateActivation::gelu_tanh) != is_gemma)
    throw not_computable("model.activation", std::string("expected ") + (is_gemma ? "gelu_tanh" : "silu"));
  const bool may_have_bias = architecture == "llama" || architecture == "qwen2";
  if (config.attention_bias != model::AttentionBias::none && !may_have_bias)
    throw not_computable("model.attention_bias", architecture + " has no such biases; expected none");
  if (architecture == "gemma2" && !(config.attn_logit_softcapping && config.final_logit_softcapping))
    throw not_computable("model.attn_logit_softcapping", "gemma2 always has both soft caps");
  if (architecture == "gemma3" && config.final_logit_softcapping)
    throw not_computable("model.final_logit_softcapping", "gemma3 has no soft cap beside sliding layers");
  if ((architecture == "gemma" || architecture == "gemma2") && !config.tie_embeddings)
    throw not_computable("model.tie_embeddings", "the output layer of " + architecture + " is the embedding");
  check_windows(config, architecture);
}

/// Returns by what llama.cpp divides each frequency: [d / 2].
at::Tensor llama3_factors(const model::LlamaConfig& config, const model::Llama3RopeConfig& scaling) {
  std::vector<float> factors;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  for (std::int64_t i = 0; i < config.size_of_head(); i += 2) {
    const double wavelength =
        2 * std::numbers::pi *
        std::pow(config.rope_theta, static_cast<double>(i) / static_cast<double>(config.size_of_head()));
    const double smooth = std::clamp(
        (original / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0,
        1.0);
    factors.push_back(static_cast<float>(1 / ((1 - smooth) / scaling.factor + smooth)));
  }
  return at::tensor(factors);
}

void add_llama_rope(GgufFile& file, const model::LlamaConfig& config, const std::string& architecture) {
  file.set(architecture + ".rope.freq_base", static_cast<float>(config.rope_theta));
  file.set(architecture + ".rope.dimension_count", static_cast<std::uint32_t>(config.size_of_head()));
  if (const auto* linear = config.rope_scaling.get_if<model::LinearRopeConfig>()) {
    file.set(architecture + ".rope.scaling.type", std::string("linear"));
    file.set(architecture + ".rope.scaling.factor", static_cast<float>(linear->factor));
  } else if (const auto* llama3 = config.rope_scaling.get_if<model::Llama3RopeConfig>();
             llama3 != nullptr && architecture == "llama") {
    file.add("rope_freqs.weight", llama3_factors(config, *llama3), GgufType::f32);
  } else if (config.rope_scaling.get_if<model::PlainRopeConfig>() == nullptr) {
    throw not_computable("model.rope_scaling", "expected none, linear, or llama3 with a network of llama");
  }
}

void add_llama_keys(GgufFile& file, const model::LlamaConfig& config, const std::string& architecture,
                    std::int64_t vocab_size) {
  const auto count = [&](const char* key, std::int64_t value) {
    file.set(architecture + "." + key, static_cast<std::uint32_t>(value));
  };
  const auto number = [&](const char* key, double value) {
    file.set(architecture + "." + key, static_cast<float>(value));
  };
  count("vocab_size", vocab_size);
  count("context_length", config.max_position_embeddings);
  count("embedding_length", config.hidden_size);
  count("block_count", config.num_layers);
  count("feed_forward_length", config.inner_size());
  count("attention.head_count", config.num_heads);
  count("attention.head_count_kv", config.key_value_heads());
  count("attention.key_length", config.size_of_head());
  count("attention.value_length", config.size_of_head());
  number("attention.layer_norm_rms_epsilon", config.rms_norm_epsilon);
  if (config.sliding_window) count("attention.sliding_window", *config.sliding_window);
  if (config.attn_logit_softcapping) number("attn_logit_softcapping", *config.attn_logit_softcapping);
  if (config.final_logit_softcapping) number("final_logit_softcapping", *config.final_logit_softcapping);
}

/// Returns the rows of each head in llama.cpp's order for its architecture llama: halves that turn together alternate.
at::Tensor alternating(const at::Tensor& rows, std::int64_t num_heads) {
  return rows.unflatten(0, {num_heads, 2, -1}).transpose(1, 2).flatten(0, 2).contiguous();
}

GgufNames gguf_names_of(const model::LlamaConfig& config) {
  GgufNames names = {{"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
                     {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
                     {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
                     {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
                     {"mlp.down_proj", "ffn_down"},       {"input_layernorm", "attn_norm"}};
  if (config.norm_placement == model::NormPlacement::pre) {
    names.emplace_back("post_attention_layernorm", "ffn_norm");
  } else {
    names.emplace_back("post_attention_layernorm", "post_attention_norm");
    names.emplace_back("pre_feedforward_layernorm", "ffn_norm");
    names.emplace_back("post_feedforward_layernorm", "post_ffw_norm");
  }
  return names;
}

const GgufNames& gguf_names_of(const model::Gpt2Config&) {
  static const GgufNames names = {{"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
                                  {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"}};
  return names;
}

/// Returns the name of a block's tensor there; null: it is of no block.
std::optional<std::string> block_name(const std::string& name, std::string_view prefix, const GgufNames& names) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::size_t dot = name.find('.', prefix.size());
  const std::string number = name.substr(prefix.size(), dot - prefix.size());
  const std::string rest = name.substr(dot + 1);  // self_attn.q_proj.weight
  const std::size_t end = rest.rfind('.');
  for (const auto& [ours, theirs] : names)
    if (rest.substr(0, end) == ours) return "blk." + number + "." + std::string(theirs) + rest.substr(end);
  throw core::Error("GGUF has no name for " + name);
}

/// Returns the name of a tensor outside the blocks.
std::string other_name(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kNames = {
      {{"model.embed_tokens.weight", "token_embd.weight"},
       {"model.norm.weight", "output_norm.weight"},
       {"lm_head.weight", "output.weight"},
       {"transformer.wte.weight", "token_embd.weight"},
       {"transformer.wpe.weight", "position_embd.weight"},
       {"transformer.ln_f.weight", "output_norm.weight"},
       {"transformer.ln_f.bias", "output_norm.bias"}}};
  for (const auto& [ours, theirs] : kNames)
    if (name == ours) return std::string(theirs);
  throw core::Error("GGUF has no name for " + name);
}

std::string name_there(const std::string& name, std::string_view blocks, const GgufNames& names) {
  const std::optional<std::string> in_block = block_name(name, blocks, names);
  return in_block ? *in_block : other_name(name);
}

void add_stored(GgufFile& file, const std::string& name, const at::Tensor& tensor, GgufType type) {
  file.add(name, tensor, stored_type(tensor, type));
}

void add_kind(GgufFile& file, const model::LlamaConfig& config, const pretrained::ModelInfo& facts,
              const checkpoint::TensorMap& tensors, GgufType type) {
  const std::string architecture = gguf_architecture(pretrained::published_family(config));
  check_computable(config, architecture);
  file.set("general.architecture", architecture);
  add_llama_keys(file, config, architecture, facts.vocab_size);
  add_llama_rope(file, config, architecture);
  const GgufNames names = gguf_names_of(config);
  for (const auto& [name, tensor] : tensors) {
    const std::string theirs = name_there(name, kLlamaBlocks, names);
    at::Tensor value = tensor;
    const bool turns = architecture == "llama";
    if (turns && theirs.find(".attn_q.") != std::string::npos) value = alternating(tensor, config.num_heads);
    if (turns && theirs.find(".attn_k.") != std::string::npos) value = alternating(tensor, config.key_value_heads());
    if (config.norm_unit_offset && theirs.find("norm.") != std::string::npos) value = tensor.add(1);
    add_stored(file, theirs, value, type);
  }
}

void add_kind(GgufFile& file, const model::Gpt2Config& config, const pretrained::ModelInfo& facts,
              const checkpoint::TensorMap& tensors, GgufType type) {
  const auto count = [&](const char* key, std::int64_t value) {
    file.set(std::string("gpt2.") + key, static_cast<std::uint32_t>(value));
  };
  file.set("general.architecture", std::string("gpt2"));
  count("vocab_size", facts.vocab_size);
  count("context_length", config.max_position_embeddings);
  count("embedding_length", config.hidden_size);
  count("block_count", config.num_layers);
  count("feed_forward_length", config.inner_size());
  count("attention.head_count", config.num_heads);
  file.set("gpt2.attention.layer_norm_epsilon", static_cast<float>(config.layer_norm_epsilon));
  for (const auto& [name, tensor] : tensors) {
    const std::string theirs = name_there(name, "transformer.h.", gguf_names_of(config));
    const bool is_product = theirs.starts_with("blk.") && tensor.dim() == 2;  // [in, out] here
    add_stored(file, theirs, is_product ? tensor.t().contiguous() : tensor, type);
  }
}

template <class Network>
void add_kind(GgufFile&, const Network&, const pretrained::ModelInfo&, const checkpoint::TensorMap&, GgufType) {
  throw core::Error("--format gguf: llama.cpp has no network like " + std::string(Network::kind) +
                    "; expected gpt2 or llama");
}

}  // namespace

void add_network(GgufFile& file, const model::NetworkConfig& network, const pretrained::ModelInfo& facts,
                 const checkpoint::TensorMap& tensors, GgufType type) {
  network.visit([&](const auto& config) { add_kind(file, config, facts, tensors, type); });
}

}  // namespace trainctl::exporters
