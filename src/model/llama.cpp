// Llama with transformers' names and initialization, so checkpoints convert in both directions.
#include <limits>

#include "core/error.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"
#include "model/layers/attention.h"
#include "model/layers/embedding.h"
#include "model/layers/linear.h"
#include "model/layers/rms_norm.h"
#include "model/layers/rope.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

constexpr Init kLlamaInit = Init::normal(0, 0.02);

class LlamaSelfAttention final : public SequenceLayer {
 public:
  LlamaSelfAttention(const LlamaConfig& config, std::size_t index)
      : query_(child<Linear>("q_proj", config.hidden_size, config.num_heads * config.size_of_head(), kLlamaInit,
                             Bias::none)),
        key_(child<Linear>("k_proj", config.hidden_size, config.key_value_heads() * config.size_of_head(), kLlamaInit,
                           Bias::none)),
        value_(child<Linear>("v_proj", config.hidden_size, config.key_value_heads() * config.size_of_head(), kLlamaInit,
                             Bias::none)),
        output_(child<Linear>("o_proj", config.num_heads * config.size_of_head(), config.hidden_size, kLlamaInit,
                              Bias::none)),
        num_heads_(config.num_heads),
        key_value_heads_(config.key_value_heads()),
        index_(index),
        dropout_(config.attention_dropout) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const auto turn = [&](const at::Tensor& heads) {
      return kernels::rotate(heads, context.rope_cosine, context.rope_sine);
    };
    const at::Tensor shared = enter_split_layer(input, ranks_);
    const at::Tensor heads = attend(turn(split_heads(query_.forward(shared), num_heads_)),
                                    turn(split_heads(key_.forward(shared), key_value_heads_)),
                                    split_heads(value_.forward(shared), key_value_heads_), context,
                                    {.layer = index_, .dropout = is_training() ? dropout_ : 0, .heads = heads_});
    return output_.forward(merge_heads(heads));
  }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    heads_ = heads_of_rank(num_heads_, *ranks);
    num_heads_ = range_of(num_heads_, *ranks).size;
    key_value_heads_ = range_of(key_value_heads_, *ranks).size;
    for (Linear* layer : {&query_, &key_, &value_}) layer->split_outputs(ranks);
    output_.split_inputs(ranks);
  }
  double flops() const { return query_.flops() + key_.flops() + value_.flops() + output_.flops(); }

 private:
  Linear& query_;
  Linear& key_;
  Linear& value_;
  Linear& output_;
  std::int64_t num_heads_;  // of this rank
  std::int64_t key_value_heads_;
  kernels::HeadRange heads_{};
  TensorRanksPtr ranks_;
  std::size_t index_;
  double dropout_;
};

/// Feed-forward layer with SwiGLU (https://arxiv.org/abs/2002.05202).
class LlamaFeedForward final : public UnaryLayer {
 public:
  explicit LlamaFeedForward(const LlamaConfig& config)
      : gate_(child<Linear>("gate_proj", config.hidden_size, config.inner_size(), kLlamaInit, Bias::none)),
        up_(child<Linear>("up_proj", config.hidden_size, config.inner_size(), kLlamaInit, Bias::none)),
        down_(child<Linear>("down_proj", config.inner_size(), config.hidden_size, kLlamaInit, Bias::none)) {}

  at::Tensor compute(const at::Tensor& input) override {
    const at::Tensor shared = enter_split_layer(input, ranks_);
    return down_.forward(kernels::swiglu(gate_.forward(shared), up_.forward(shared)));
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
  TensorRanksPtr ranks_;
};

class DecoderLayer final : public SequenceLayer {
 public:
  DecoderLayer(const LlamaConfig& config, std::size_t index)
      : attention_(child<LlamaSelfAttention>("self_attn", config, index)),
        feed_forward_(child<LlamaFeedForward>("mlp", config)),
        norm1_(child<RmsNorm>("input_layernorm", config.hidden_size, config.rms_norm_epsilon)),
        norm2_(child<RmsNorm>("post_attention_layernorm", config.hidden_size, config.rms_norm_epsilon)) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const at::Tensor value = input.add(attention_.forward(norm1_.forward(input), context));
    return value.add(feed_forward_.forward(norm2_.forward(value)));
  }
  double flops() const { return attention_.flops() + feed_forward_.flops(); }

 private:
  LlamaSelfAttention& attention_;
  LlamaFeedForward& feed_forward_;
  RmsNorm& norm1_;
  RmsNorm& norm2_;
};

/// Head of the final norm and the output layer, which may share the token embeddings.
class LlamaHead final : public VocabularyHead {
 public:
  LlamaHead(const LlamaConfig& config, std::int64_t vocab_size, const at::Tensor& token_weight)
      : norm_(child<RmsNorm>("model.norm", config.hidden_size, config.rms_norm_epsilon)),
        has_own_weight_(!config.tie_embeddings),
        weight_(config.tie_embeddings ? token_weight
                                      : parameter("lm_head.weight", {vocab_size, config.hidden_size}, kLlamaInit)) {}

  at::Tensor transform(const at::Tensor& hidden) override { return norm_.forward(hidden); }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return {}; }

 private:
  void split_own(const TensorRanks& ranks) override {
    if (has_own_weight_) keep_part(weight_, 0, ranks);
  }

  RmsNorm& norm_;
  bool has_own_weight_;
  const at::Tensor& weight_;
};

/// Returns the longest sequence. Dynamic scaling allows sequences beyond max_position_embeddings.
std::int64_t longest_sequence(const LlamaConfig& config) {
  return config.rope_scaling.get_if<DynamicRopeConfig>() == nullptr ? config.max_position_embeddings
                                                                    : std::numeric_limits<std::int64_t>::max();
}

class Llama final : public Model {
 public:
  Llama(const LlamaConfig& config, const InputSpec& input) : config_(config) {
    const std::int64_t length = sequence_length(input, LlamaConfig::kind, longest_sequence(config));
    const std::int64_t vocab_size = vocabulary(config.vocab_size, input);
    embeddings_ = &child<Embedding>("model.embed_tokens", vocab_size, config.hidden_size, kLlamaInit);
    add_block("model.embed_tokens", *embeddings_);
    double per_token = 0;
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      const std::string name = "model.layers." + std::to_string(i);
      auto& layer = child<DecoderLayer>(name, config, static_cast<std::size_t>(i));
      add_block(name, layer);
      per_token += layer.flops();
    }
    add_vocabulary_head("head", child<LlamaHead>("", config, vocab_size, embeddings_->weight()));
    per_token += 2.0 * static_cast<double>(vocab_size * config.hidden_size);
    per_token +=
        attention_flops(length, config.num_heads * config.size_of_head()) * static_cast<double>(config.num_layers);
    flops_ = per_token * static_cast<double>(length);
  }

  double flops_per_sample() const override { return flops_; }
  void split(const TensorRanksPtr& ranks) override { embeddings_->split_rows(ranks); }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    SequenceContext context = make_context(input, Causality::causal);
    const std::int64_t seen = input.cache == nullptr ? 0 : input.cache->length();
    const std::int64_t length = input.values.size(1) * (input.ranks == nullptr ? 1 : input.ranks->size);
    const RopeTables tables = rope_tables(config_, context.positions, seen + length);
    context.rope_cosine = tables.cosine;
    context.rope_sine = tables.sine;
    return context;
  }

 private:
  LlamaConfig config_;
  Embedding* embeddings_;
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
