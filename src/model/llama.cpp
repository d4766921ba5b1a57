// Llama with transformers' names and initialization, so checkpoints convert in both directions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "kernels/gelu.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"
#include "model/layers/attention.h"
#include "model/layers/embedding.h"
#include "model/layers/linear.h"
#include "model/layers/rms_norm.h"
#include "model/layers/rope.h"
#include "model/layers/shared_input.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

constexpr Init kLlamaInit = Init::normal(0, 0.02);

NormScale norm_scale(const LlamaConfig& config) {
  return config.norm_unit_offset ? NormScale::one_plus_weight : NormScale::weight;
}

Bias bias_if(bool has_bias) {
  return has_bias ? Bias::learned : Bias::none;
}

class LlamaSelfAttention final : public SequenceLayer {
 public:
  LlamaSelfAttention(const LlamaConfig& config, std::size_t index)
      : query_(projection(config, "q_proj", config.num_heads)),
        key_(projection(config, "k_proj", config.key_value_heads())),
        value_(projection(config, "v_proj", config.key_value_heads())),
        output_(child<Linear>("o_proj", config.num_heads * config.size_of_head(), config.hidden_size, kLlamaInit,
                              bias_if(config.attention_bias == AttentionBias::all))),
        num_heads_(config.num_heads),
        key_value_heads_(config.key_value_heads()),
        options_{.layer = index,
                 .window = config.slides(index) ? *config.sliding_window : 0,
                 .softcap = config.attn_logit_softcapping.value_or(0)},
        rotates_(config.rotates(index)),
        dropout_(config.attention_dropout) {
    if (config.qk_norm) {
      query_norm_ = &child<RmsNorm>("q_norm", config.size_of_head(), config.rms_norm_epsilon, norm_scale(config));
      key_norm_ = &child<RmsNorm>("k_norm", config.size_of_head(), config.rms_norm_epsilon, norm_scale(config));
    }
    if (config.query_pre_attn_scalar)
      query_scale_ =
          std::sqrt(static_cast<double>(config.size_of_head()) / static_cast<double>(*config.query_pre_attn_scalar));
  }

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const at::Tensor shared = enter_split_layer(input, ranks_);
    const std::vector<at::Tensor> projected = forward_each({&query_, &key_, &value_}, shared);
    at::Tensor query = placed(normed(split_heads(projected[0], num_heads_), query_norm_), context);
    const at::Tensor key = placed(normed(split_heads(projected[1], key_value_heads_), key_norm_), context);
    // Attention divides scores by the root of the head size.
    if (query_scale_ != 1) query = query.mul(query_scale_);
    AttentionOptions options = options_;
    options.dropout = is_training() ? dropout_ : 0;
    const at::Tensor value = split_heads(projected[2], key_value_heads_);
    const at::Tensor heads = attend(query, key, value, options.window > 0 ? in_window(context) : context, options);
    return output_.forward(merge_heads(heads));
  }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    options_.heads = heads_of_rank(num_heads_, *ranks);
    num_heads_ = range_of(num_heads_, *ranks).size;
    key_value_heads_ = range_of(key_value_heads_, *ranks).size;
    for (Linear* layer : {&query_, &key_, &value_}) layer->split_outputs(ranks);
    for (RmsNorm* norm : {query_norm_, key_norm_})
      if (norm != nullptr) norm->use_for_heads_of(ranks);
    output_.split_inputs(ranks);
  }
  double flops() const { return query_.flops() + key_.flops() + value_.flops() + output_.flops(); }

 private:
  Linear& projection(const LlamaConfig& config, const char* name, std::int64_t num_heads) {
    return child<Linear>(name, config.hidden_size, num_heads * config.size_of_head(), kLlamaInit,
                         bias_if(config.attention_bias != AttentionBias::none));
  }
  static at::Tensor normed(const at::Tensor& heads, RmsNorm* norm) {
    return norm == nullptr ? heads : norm->forward(heads);
  }
  /// Returns the heads as their positions turn them.
  at::Tensor placed(const at::Tensor& heads, const SequenceContext& context) const {
    if (!rotates_) return heads;
    const bool is_local = options_.window > 0 && context.local_rope_cosine.defined();
    return kernels::rotate(heads, is_local ? context.local_rope_cosine : context.rope_cosine,
                           is_local ? context.local_rope_sine : context.rope_sine);
  }

  Linear& query_;
  Linear& key_;
  Linear& value_;
  Linear& output_;
  RmsNorm* query_norm_ = nullptr;
  RmsNorm* key_norm_ = nullptr;
  std::int64_t num_heads_;  // of this rank
  std::int64_t key_value_heads_;
  AttentionOptions options_;
  bool rotates_;
  double query_scale_ = 1;
  TensorRanksPtr ranks_;
  double dropout_;
};

/// Feed-forward layer with SwiGLU or GeGLU (https://arxiv.org/abs/2002.05202).
class LlamaFeedForward final : public UnaryLayer {
 public:
  explicit LlamaFeedForward(const LlamaConfig& config)
      : gate_(
            child<Linear>("gate_proj", config.hidden_size, config.inner_size(), kLlamaInit, bias_if(config.mlp_bias))),
        up_(child<Linear>("up_proj", config.hidden_size, config.inner_size(), kLlamaInit, bias_if(config.mlp_bias))),
        down_(
            child<Linear>("down_proj", config.inner_size(), config.hidden_size, kLlamaInit, bias_if(config.mlp_bias))),
        activation_(config.activation) {}

  at::Tensor compute(const at::Tensor& input) override {
    const at::Tensor shared = enter_split_layer(input, ranks_);
    const std::vector<at::Tensor> inner = forward_each({&gate_, &up_}, shared);
    return down_.forward(activation_ == GateActivation::silu
                             ? kernels::swiglu(inner[0], inner[1])
                             : kernels::gelu(inner[0], kernels::Gelu::tanh).mul(inner[1]));
  }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    gate_.split_outputs(ranks);
    up_.split_outputs(ranks);
    down_.split_inputs(ranks);
  }
  double flops() const { return gate_.flops() + up_.flops() + down_.flops(); }

 private:
  Linear& gate_;
  Linear& up_;
  Linear& down_;
  GateActivation activation_;
  TensorRanksPtr ranks_;
};

/// Norms carry transformers' names. There `post_attention_layernorm` is before the feed-forward layer in Llama, and
/// after attention in Gemma 2.
class DecoderLayer final : public SequenceLayer {
 public:
  DecoderLayer(const LlamaConfig& config, std::size_t index)
      : attention_(child<LlamaSelfAttention>("self_attn", config, index)),
        feed_forward_(child<LlamaFeedForward>("mlp", config)),
        norm1_(norm(config, "input_layernorm")) {
    const bool has_post_norms = config.norm_placement == NormPlacement::pre_and_post;
    if (has_post_norms) after_attention_ = &norm(config, "post_attention_layernorm");
    norm2_ = &norm(config, has_post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm");
    if (has_post_norms) after_feed_forward_ = &norm(config, "post_feedforward_layernorm");
  }

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const at::Tensor attended = attention_.forward(norm1_.forward(input), context);
    const at::Tensor branch = after_attention_ == nullptr ? attended : after_attention_->forward(attended);
    const auto [value, normed] = norm2_->add(input, branch, kernels::NormedFor::products);
    const at::Tensor fed = feed_forward_.forward(normed);
    return value.add(after_feed_forward_ == nullptr ? fed : after_feed_forward_->forward(fed));
  }
  double flops() const { return attention_.flops() + feed_forward_.flops(); }

 private:
  RmsNorm& norm(const LlamaConfig& config, const char* name) {
    return child<RmsNorm>(name, config.hidden_size, config.rms_norm_epsilon, norm_scale(config));
  }

  LlamaSelfAttention& attention_;
  LlamaFeedForward& feed_forward_;
  RmsNorm& norm1_;
  RmsNorm* norm2_ = nullptr;
  RmsNorm* after_attention_ = nullptr;  // null: none
  RmsNorm* after_feed_forward_ = nullptr;
};

/// Token embeddings, which may be scaled by the root of their size.
class LlamaEmbeddings final : public UnaryLayer {
 public:
  LlamaEmbeddings(const LlamaConfig& config, std::int64_t vocab_size)
      : tokens_(child<Embedding>("", vocab_size, config.hidden_size, kLlamaInit, config.pad_token_id)),
        scale_(config.scale_embeddings ? std::sqrt(static_cast<double>(config.hidden_size)) : 1) {}

  at::Tensor compute(const at::Tensor& ids) override {
    const at::Tensor hidden = tokens_.forward(ids);
    return scale_ == 1 ? hidden : hidden.mul(scale_);
  }
  void split(const TensorRanksPtr& ranks) override { tokens_.split_rows(ranks); }
  const at::Tensor& weight() const { return tokens_.weight(); }

 private:
  Embedding& tokens_;
  double scale_;
};

/// Head of the final norm and the output layer, which may share the token embeddings.
class LlamaHead final : public VocabularyHead {
 public:
  LlamaHead(const LlamaConfig& config, std::int64_t vocab_size, const at::Tensor& token_weight)
      : norm_(child<RmsNorm>("model.norm", config.hidden_size, config.rms_norm_epsilon, norm_scale(config))),
        has_own_weight_(!config.tie_embeddings),
        weight_(config.tie_embeddings ? token_weight
                                      : parameter("lm_head.weight", {vocab_size, config.hidden_size}, kLlamaInit)),
        softcap_(config.final_logit_softcapping.value_or(0)) {}

  at::Tensor transform(const at::Tensor& hidden) override { return norm_.forward(hidden); }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return {}; }
  double logit_softcap() const override { return softcap_; }

 private:
  void split_own(const TensorRanks& ranks) override {
    if (has_own_weight_) keep_part(weight_, 0, ranks);
  }

  RmsNorm& norm_;
  bool has_own_weight_;
  const at::Tensor& weight_;
  double softcap_;
};

std::int64_t longest_sequence(const LlamaConfig& config) {
  return config.sizes().extends_positions ? std::numeric_limits<std::int64_t>::max() : config.max_position_embeddings;
}

class Llama final : public Model {
 public:
  Llama(const LlamaConfig& config, const InputSpec& input) : config_(config) {
    const std::int64_t length = sequence_length(input, LlamaConfig::kind, longest_sequence(config));
    const std::int64_t vocab_size = vocabulary(config.vocab_size, input);
    check_padding(config.pad_token_id, vocab_size);
    auto& embeddings = child<LlamaEmbeddings>("model.embed_tokens", config, vocab_size);
    add_block("model.embed_tokens", embeddings);
    double per_token = 0;
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      const std::string name = "model.layers." + std::to_string(i);
      auto& layer = child<DecoderLayer>(name, config, static_cast<std::size_t>(i));
      add_block(name, layer);
      per_token += layer.flops();
    }
    add_vocabulary_head("head", child<LlamaHead>("", config, vocab_size, embeddings.weight()));
    per_token += 2.0 * static_cast<double>(vocab_size * config.hidden_size);
    const std::int64_t width = config.num_heads * config.size_of_head();
    const std::int64_t num_sliding = config.num_sliding();
    per_token += attention_flops(length, width) * static_cast<double>(config.num_layers - num_sliding);
    per_token += attention_flops(std::min(length, config.sliding_window.value_or(length)), width) *
                 static_cast<double>(num_sliding);
    flops_ = per_token * static_cast<double>(length);
  }

  double flops_per_sample() const override { return flops_; }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    SequenceContext context = make_context(input, Causality::causal);
    const SequenceLengths lengths = lengths_of(input);
    const RopeTables tables = rope_tables(config_, context.positions, lengths, frequencies_);
    context.rope_cosine = tables.cosine;
    context.rope_sine = tables.sine;
    if (config_.rope_local_theta) {
      LlamaConfig local = config_;
      local.rope_theta = *config_.rope_local_theta;
      local.rope_scaling = PlainRopeConfig{};
      const RopeTables near = rope_tables(local, context.positions, lengths, frequencies_);
      context.local_rope_cosine = near.cosine;
      context.local_rope_sine = near.sine;
    }
    if (config_.num_sliding() > 0)
      context.window_mask = window_mask(context, *config_.sliding_window, input.values.size(1), input.values.device());
    return context;
  }
  /// Phi-3 alone computes earlier keys again in transformers. Others keep them as their own step turned them.
  std::int64_t cache_version(std::int64_t length) const override {
    return config_.fused_projections ? rope_version(config_, length) : 0;
  }

 private:
  /// Returns the lengths of the documents, or of the rows without their padding.
  SequenceLengths lengths_of(const ModelInput& input) const {
    const std::int64_t seen = input.cache == nullptr ? 0 : input.cache->length();
    const std::int64_t length = input.values.size(1) * (input.ranks == nullptr ? 1 : input.ranks->size);
    SequenceLengths lengths{.longest = seen + length};
    if (rope_version(config_, lengths.longest) == 0) return lengths;
    if (input.documents.defined()) {
      lengths.by_token = lengths_of_documents(input.documents);
      if (input.ranks != nullptr)
        lengths.by_token = lengths.by_token.index_select(1, input.ranks->places(length, input.values.device()));
    } else if (input.key_mask.defined()) {
      lengths.by_token = input.key_mask.sum(1, /*keepdim=*/true);
    }
    return lengths;
  }

  LlamaConfig config_;
  mutable RopeFrequencies frequencies_;
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const LlamaConfig& config, const InputSpec& input) {
  if (config.head_size.is_auto()) check_heads(config.hidden_size, config.num_heads);
  if (config.size_of_head() % 2 != 0)
    throw core::Error("rotary positions need heads of even size, but model.head_size is " +
                      std::to_string(config.size_of_head()));
  if (config.num_heads % config.key_value_heads() != 0)
    throw core::Error("model.num_key_value_heads must divide model.num_heads: " +
                      std::to_string(config.key_value_heads()) + " and " + std::to_string(config.num_heads));
  return std::make_unique<Llama>(config, input);
}

}  // namespace trainctl::model
