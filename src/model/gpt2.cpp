// GPT-2 (Radford et al., 2019) with transformers' names and initialization, so checkpoints convert in both directions.
#include <cmath>

#include "kernels/gelu.h"
#include "model/layers/attention.h"
#include "model/layers/dropout.h"
#include "model/layers/embedding.h"
#include "model/layers/layer_norm.h"
#include "model/layers/transposed_linear.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

constexpr Init kGpt2Init = Init::normal(0, 0.02);

/// Returns the initialization of projections into the residual stream; it shrinks with the depth of the network.
Init residual_init(const Gpt2Config& config) {
  return Init::normal(0, 0.02 / std::sqrt(2.0 * static_cast<double>(config.num_layers)));
}

class Gpt2Embeddings final : public SequenceLayer {
 public:
  Gpt2Embeddings(const Gpt2Config& config, std::int64_t vocab_size)
      : tokens_(child<Embedding>("wte", vocab_size, config.hidden_size, kGpt2Init)),
        positions_(child<Embedding>("wpe", config.max_position_embeddings, config.hidden_size, kGpt2Init)),
        dropout_(child<Dropout>("drop", config.dropout)) {}

  at::Tensor compute(const at::Tensor& ids, const SequenceContext& context) override {
    return dropout_.forward(tokens_.forward(ids).add(positions_.forward(context.positions)));
  }
  void split(const TensorRanksPtr& ranks) override { tokens_.split_rows(ranks); }
  const at::Tensor& token_weight() const { return tokens_.weight(); }

 private:
  Embedding& tokens_;
  Embedding& positions_;
  Dropout& dropout_;
};

class Gpt2SelfAttention final : public SequenceLayer {
 public:
  Gpt2SelfAttention(const Gpt2Config& config, std::size_t index)
      : qkv_(child<TransposedLinear>("c_attn", config.hidden_size, 3 * config.hidden_size, kGpt2Init)),
        output_(child<TransposedLinear>("c_proj", config.hidden_size, config.hidden_size, residual_init(config))),
        dropout_(child<Dropout>("resid_dropout", config.dropout)),
        num_heads_(config.num_heads),
        index_(index),
        attention_dropout_(config.attention_dropout) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const at::Tensor heads =
        attend(qkv_.forward(enter_split_layer(input, ranks_)), num_heads_, context,
               {.layer = index_, .dropout = is_training() ? attention_dropout_ : 0, .heads = heads_});
    return dropout_.forward(output_.forward(merge_heads(heads)));
  }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    heads_ = heads_of_rank(num_heads_, *ranks);
    num_heads_ = range_of(num_heads_, *ranks).size;
    qkv_.split_outputs(ranks, /*sections=*/3);
    output_.split_inputs(ranks);
    dropout_.share_tokens(ranks);
  }
  double flops() const { return qkv_.flops() + output_.flops(); }

 private:
  TransposedLinear& qkv_;
  TransposedLinear& output_;
  Dropout& dropout_;
  std::int64_t num_heads_;  // of this rank
  kernels::HeadRange heads_{};
  TensorRanksPtr ranks_;
  std::size_t index_;
  double attention_dropout_;
};

class Gpt2FeedForward final : public UnaryLayer {
 public:
  explicit Gpt2FeedForward(const Gpt2Config& config)
      : up_(child<TransposedLinear>("c_fc", config.hidden_size, config.inner_size(), kGpt2Init)),
        down_(child<TransposedLinear>("c_proj", config.inner_size(), config.hidden_size, residual_init(config))),
        dropout_(child<Dropout>("dropout", config.dropout)) {}

  at::Tensor compute(const at::Tensor& input) override {
    const auto [inner, bias] = up_.forward_before_bias(enter_split_layer(input, ranks_));
    return dropout_.forward(down_.forward(kernels::bias_gelu(inner, bias, kernels::Gelu::tanh)));
  }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    up_.split_outputs(ranks);
    down_.split_inputs(ranks);
    dropout_.share_tokens(ranks);
  }
  double flops() const { return up_.flops() + down_.flops(); }

 private:
  TransposedLinear& up_;
  TransposedLinear& down_;
  Dropout& dropout_;
  TensorRanksPtr ranks_;
};

class Gpt2TransformerBlock final : public SequenceLayer {
 public:
  Gpt2TransformerBlock(const Gpt2Config& config, std::size_t index)
      : norm1_(child<LayerNorm>("ln_1", config.hidden_size, config.layer_norm_epsilon)),
        attention_(child<Gpt2SelfAttention>("attn", config, index)),
        norm2_(child<LayerNorm>("ln_2", config.hidden_size, config.layer_norm_epsilon)),
        feed_forward_(child<Gpt2FeedForward>("mlp", config)) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const at::Tensor attended = attention_.forward(norm1_.forward(input), context);
    const auto [value, normed] = norm2_.add(input, attended, kernels::NormedFor::products);
    return value.add(feed_forward_.forward(normed));
  }
  double flops() const { return attention_.flops() + feed_forward_.flops(); }

 private:
  LayerNorm& norm1_;
  Gpt2SelfAttention& attention_;
  LayerNorm& norm2_;
  Gpt2FeedForward& feed_forward_;
};

/// Head of the final norm and the token embeddings as output weights.
class Gpt2Head final : public VocabularyHead {
 public:
  Gpt2Head(const Gpt2Config& config, const at::Tensor& token_weight)
      : norm_(child<LayerNorm>("ln_f", config.hidden_size, config.layer_norm_epsilon)), weight_(token_weight) {}

  at::Tensor transform(const at::Tensor& hidden) override { return norm_.forward(hidden); }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return {}; }

 private:
  LayerNorm& norm_;
  const at::Tensor& weight_;
};

class Gpt2 final : public Model {
 public:
  Gpt2(const Gpt2Config& config, const InputSpec& input) {
    const std::int64_t length = sequence_length(input, Gpt2Config::kind, config.max_position_embeddings);
    const std::int64_t vocab_size = vocabulary(config.vocab_size, input);
    auto& embeddings = child<Gpt2Embeddings>("transformer", config, vocab_size);
    add_block("embeddings", embeddings);
    double per_token = 0;
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      const std::string name = "transformer.h." + std::to_string(i);
      auto& block = child<Gpt2TransformerBlock>(name, config, static_cast<std::size_t>(i));
      add_block(name, block);
      per_token += block.flops();
    }
    add_vocabulary_head("head", child<Gpt2Head>("transformer", config, embeddings.token_weight()));
    per_token += 2.0 * static_cast<double>(vocab_size * config.hidden_size);
    per_token += attention_flops(length, config.hidden_size) * static_cast<double>(config.num_layers);
    flops_ = per_token * static_cast<double>(length);
  }

  double flops_per_sample() const override { return flops_; }

 protected:
  SequenceContext context(const ModelInput& input) const override { return make_context(input, Causality::causal); }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const Gpt2Config& config, const InputSpec& input) {
  check_heads(config.hidden_size, config.num_heads);
  return std::make_unique<Gpt2>(config, input);
}

}  // namespace trainctl::model
