// The `model:` kind llama: decoders of the Llama family, by their features. Part of model/config.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "model/rope_config.h"
#include "model/traits.h"

namespace trainctl::model {

/// The function of the gate in each feed-forward layer: SwiGLU or GeGLU.
enum class GateActivation { silu, gelu_tanh };
/// Which projections of attention have a bias: none, those of queries, keys and values, or the output's too.
enum class AttentionBias { none, qkv, all };
/// Whether an RMSNorm follows each branch, beside the one before it.
enum class NormPlacement { pre, pre_and_post };
/// What the attention of a layer sees: all earlier tokens, or those of the window.
enum class LayerType { full_attention, sliding_attention };
/// Whether a layer turns its queries and keys by their positions.
enum class PositionType { rotary, none };

/// Llama (https://arxiv.org/abs/2302.13971), Mistral, Qwen2, Qwen3, Gemma 1 to 3, Phi-3 and SmolLM in transformers'
/// layout: RMSNorm, rotary positions, gated feed-forward layers, grouped-query attention. model/llama_families.h says
/// which features each family has.
struct LlamaConfig {
  static constexpr std::string_view kind = "llama";
  std::int64_t hidden_size = 2048;
  std::int64_t num_layers = 16;
  std::int64_t num_heads = 32;
  config::AutoOr<std::int64_t> num_key_value_heads;
  config::AutoOr<std::int64_t> head_size;
  config::AutoOr<std::int64_t> intermediate_size;
  std::int64_t max_position_embeddings = 2048;
  config::AutoOr<std::int64_t> vocab_size;
  std::optional<std::int64_t> pad_token_id{};
  double rope_theta = 10000;
  RopeScalingConfig rope_scaling;
  double rms_norm_epsilon = 1e-6;
  bool tie_embeddings = false;
  double attention_dropout = 0;
  GateActivation activation = GateActivation::silu;
  AttentionBias attention_bias = AttentionBias::none;
  bool mlp_bias = false;
  bool qk_norm = false;
  NormPlacement norm_placement = NormPlacement::pre;
  bool norm_unit_offset = false;
  bool scale_embeddings = false;
  std::optional<std::int64_t> query_pre_attn_scalar{};
  std::optional<double> attn_logit_softcapping{};
  std::optional<double> final_logit_softcapping{};
  std::optional<std::int64_t> sliding_window{};
  std::vector<LayerType> layer_types{};
  std::optional<double> rope_local_theta{};
  std::vector<PositionType> position_types{};
  bool fused_projections = false;

  std::int64_t key_value_heads() const { return num_key_value_heads.value.value_or(num_heads); }
  std::int64_t size_of_head() const { return head_size.value.value_or(hidden_size / num_heads); }
  /// 8/3 of the width, up to the next multiple of 64.
  std::int64_t inner_size() const { return intermediate_size.value.value_or((8 * hidden_size / 3 + 63) / 64 * 64); }
  /// Whether the attention of this layer sees the window alone.
  bool slides(std::size_t layer) const {
    return sliding_window &&
           (layer_types.empty() || layer_types[layer % layer_types.size()] == LayerType::sliding_attention);
  }
  /// Whether this layer has rotary positions.
  bool rotates(std::size_t layer) const {
    return position_types.empty() || position_types[layer % position_types.size()] == PositionType::rotary;
  }
  /// Returns the number of layers that slide.
  std::int64_t num_sliding() const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < num_layers; ++i) count += slides(static_cast<std::size_t>(i)) ? 1 : 0;
    return count;
  }

  static constexpr auto fields() {
    using config::field;
    using C = LlamaConfig;
    return config::Fields{
        field<&C::hidden_size>("Width of the residual stream.", config::at_least(1)),
        field<&C::num_layers>("Transformer blocks.", config::between(1, 10'000)),
        field<&C::num_heads>("Query heads.", config::at_least(1)),
        field<&C::num_key_value_heads>(
            "Key and value heads, a divisor of num_heads (grouped-query attention); `auto` is num_heads.",
            config::at_least(1)),
        field<&C::head_size>("Size of each head, even; `auto` is hidden_size / num_heads.", config::at_least(2)),
        field<&C::intermediate_size>(
            "Width inside each feed-forward layer; `auto` is 8/3 × hidden_size, up to a multiple of 64.",
            config::at_least(1)),
        field<&C::max_position_embeddings>("The longest sequence.", config::at_least(1)),
        field<&C::vocab_size>("Token embeddings; `auto` takes the dataset's.", config::at_least(1)),
        field<&C::pad_token_id>(
            "Token id whose embedding starts at zero and isn't trained as an input, as transformers' "
            "padding; null: each token's is.",
            config::at_least(0)),
        field<&C::rope_theta>("Base wavelength of the rotary positions.", config::positive),
        field<&C::rope_scaling>("How rotary positions reach beyond the pretraining's length."),
        field<&C::rms_norm_epsilon>("Epsilon of every RMSNorm.", config::positive),
        field<&C::tie_embeddings>("Use the token embeddings as the output layer too."),
        field<&C::attention_dropout>("Dropout of attention weights.", config::below_one),
        field<&C::activation>(
            "Function of the gate in each feed-forward layer: `silu` (SwiGLU) or `gelu_tanh` (GeGLU)."),
        field<&C::attention_bias>("Which projections of attention have a bias: `qkv` (Qwen2), `all`, or `none`."),
        field<&C::mlp_bias>("Give the three matrices of each feed-forward layer a bias."),
        field<&C::qk_norm>(
            "Normalize the queries and keys of each head by an RMSNorm, before rotation (Qwen3, Gemma 3)."),
        field<&C::norm_placement>(
            "`pre_and_post` normalizes what each branch gives, too, before the branch is added (Gemma 2 and 3)."),
        field<&C::norm_unit_offset>(
            "Multiply by 1 + weight in each RMSNorm, so that weights start, and decay, at 0 (Gemma)."),
        field<&C::scale_embeddings>("Multiply token embeddings by the square root of hidden_size (Gemma)."),
        field<&C::query_pre_attn_scalar>("Scores are divided by its square root; null takes the head size.",
                                         config::at_least(1)),
        field<&C::attn_logit_softcapping>("Limits attention scores to ± this by tanh (Gemma 2); null: no limit.",
                                          config::positive),
        field<&C::final_logit_softcapping>("Limits logits to ± this by tanh (Gemma 2); null: no limit.",
                                           config::positive),
        field<&C::sliding_window>("Tokens that a query sees in layers that slide, its own counted; null: all of them.",
                                  config::at_least(1)),
        field<&C::layer_types>("Which layers slide: a pattern that repeats until each layer has a type. Empty: all "
                               "layers slide if sliding_window is set."),
        field<&C::rope_local_theta>(
            "Base wavelength in layers that slide, which rope_scaling then doesn't change (Gemma 3); null: as others.",
            config::positive),
        field<&C::position_types>("Which layers have rotary positions: a pattern that repeats, such as `[rotary, "
                                  "rotary, rotary, none]` (SmolLM3). Empty: all of them."),
        field<&C::fused_projections>("Export queries, keys and values as one matrix, gate and up as another (Phi-3). "
                                     "Training computes with separate ones."),
    };
  }

  static constexpr ModelTraits traits{.input = Input::tokens,
                                      .outputs = Outputs{Output::next_tokens},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = true,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "model.embed_tokens.weight",
                                      .tied_output = "lm_head.weight",
                                      .classifier = "",
                                      .transformers_type = "llama",
                                      .transformers_prefix = "model.",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const {
    return {{"model.num_key_value_heads", key_value_heads()},
            {"model.num_heads", num_heads},
            {"model.intermediate_size", inner_size()}};
  }
  OwnSizes sizes() const {
    return {.num_classes = std::nullopt,
            .vocab_size = vocab_size.value,
            .max_position_embeddings = max_position_embeddings,
            .extends_positions = rope_scaling.get_if<DynamicRopeConfig>() != nullptr};
  }
  /// The key that ranks which share sequences (distributed.context) can't obey; null: none.
  const char* key_against_shared_sequences() const {
    return attn_logit_softcapping ? "model.attn_logit_softcapping" : nullptr;
  }
  /// Heads may have a size of their own.
  BrokenRules broken_rules(const Surroundings&) const {
    BrokenRules broken = head_size.is_auto() ? uneven_heads(hidden_size, num_heads) : BrokenRules{};
    const auto too_long = [&](const char* key, std::size_t size) {
      if (static_cast<std::int64_t>(size) > num_layers)
        broken.push_back(
            {{key, "model.num_layers", "model.kind"},
             "expected at most one item per layer, " + std::to_string(num_layers) + ", got " + std::to_string(size)});
    };
    too_long("model.layer_types", layer_types.size());
    too_long("model.position_types", position_types.size());
    const auto wants_window = std::find(layer_types.begin(), layer_types.end(), LayerType::sliding_attention);
    if (wants_window != layer_types.end() && !sliding_window)
      broken.push_back({{"model.layer_types", "model.sliding_window", "model.kind"},
                        "layers of sliding_attention need model.sliding_window, which is null"});
    if (sliding_window && num_sliding() == 0)
      broken.push_back({{"model.sliding_window", "model.layer_types", "model.kind"},
                        "no layer slides; model.layer_types has no sliding_attention"});
    if (rope_local_theta && num_sliding() == 0)
      broken.push_back({{"model.rope_local_theta", "model.sliding_window", "model.kind"},
                        "no layer slides; set model.sliding_window, or leave it out"});
    return broken;
  }
  static LlamaConfig starter() {
    return {.hidden_size = 128,
            .num_layers = 4,
            .num_heads = 4,
            .intermediate_size = 512,
            .max_position_embeddings = kStarterLength};
  }
};

}  // namespace trainctl::model
