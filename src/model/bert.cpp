// BERT (https://arxiv.org/abs/1810.04805): BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification.
// RoBERTa (https://arxiv.org/abs/1907.11692), DistilBERT (https://arxiv.org/abs/1910.01108), ELECTRA
// (https://arxiv.org/abs/2003.10555) and sentence-transformers (https://arxiv.org/abs/1908.10084) differ at both ends.
// Names, initialization and places of dropout are those of transformers' BERT, so checkpoints convert in both
// directions.
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include "core/error.h"
#include "kernels/gelu.h"
#include "model/layers/attention.h"
#include "model/layers/dropout.h"
#include "model/layers/embedding.h"
#include "model/layers/layer_norm.h"
#include "model/layers/linear.h"
#include "model/layers/pooling.h"
#include "model/layers/shared_input.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

constexpr Init kBertInit = Init::normal(0, 0.02);

class BertEmbeddings final : public SequenceLayer {
 public:
  BertEmbeddings(const BertConfig& config, std::int64_t vocab_size)
      : words_(child<Embedding>("word_embeddings", vocab_size, config.size_of_embeddings(), kBertInit,
                                config.pad_token_id)),
        positions_(child<Embedding>("position_embeddings", config.max_position_embeddings, config.size_of_embeddings(),
                                    kBertInit)),
        types_(config.type_vocab_size == 0 ? nullptr
                                           : &child<Embedding>("token_type_embeddings", config.type_vocab_size,
                                                               config.size_of_embeddings(), kBertInit)),
        norm_(child<LayerNorm>("LayerNorm", config.size_of_embeddings(), config.layer_norm_epsilon)),
        dropout_(child<Dropout>("dropout", config.dropout)),
        projection_(config.size_of_embeddings() == config.hidden_size
                        ? nullptr
                        : &child<Linear>("projection", config.size_of_embeddings(), config.hidden_size, kBertInit)),
        position_offset_(config.position_offset) {}

  at::Tensor compute(const at::Tensor& ids, const SequenceContext& context) override {
    const at::Tensor positions = position_offset_ == 0 ? context.positions : context.positions.add(position_offset_);
    at::Tensor sum = words_.forward(ids);
    if (types_ != nullptr) sum = sum.add(types_of(context));
    const at::Tensor embedded = dropout_.forward(norm_.forward(sum.add(positions_.forward(positions))));
    return projection_ == nullptr ? embedded : projection_->forward(embedded);
  }
  void split(const TensorRanksPtr& ranks) override { words_.split_rows(ranks); }
  const at::Tensor& word_weight() const { return words_.weight(); }
  /// Returns the FLOPs of one token.
  double flops() const { return projection_ == nullptr ? 0 : projection_->flops(); }

 private:
  at::Tensor types_of(const SequenceContext& context) {
    const bool is_one = types_->weight().size(0) == 1 || !context.token_types.defined();
    return is_one ? types_->weight().select(0, 0) : types_->forward(context.token_types);
  }

  Embedding& words_;
  Embedding& positions_;
  Embedding* types_;  // null: tokens have no types
  LayerNorm& norm_;
  Dropout& dropout_;
  Linear* projection_;  // null: embeddings have the blocks' width
  std::int64_t position_offset_;
};

class BertSelfAttention final : public SequenceLayer {
 public:
  explicit BertSelfAttention(const BertConfig& config)
      : query_(child<Linear>("self.query", config.hidden_size, config.hidden_size, kBertInit)),
        key_(child<Linear>("self.key", config.hidden_size, config.hidden_size, kBertInit)),
        value_(child<Linear>("self.value", config.hidden_size, config.hidden_size, kBertInit)),
        output_(child<Linear>("output.dense", config.hidden_size, config.hidden_size, kBertInit)),
        norm_(child<LayerNorm>("output.LayerNorm", config.hidden_size, config.layer_norm_epsilon)),
        dropout_(child<Dropout>("output.dropout", config.dropout)),
        num_heads_(config.num_heads),
        attention_dropout_(config.attention_dropout) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const std::vector<at::Tensor> projected = forward_each({&query_, &key_, &value_}, enter_split_layer(input, ranks_));
    const at::Tensor heads = attend(split_heads(projected[0], num_heads_), split_heads(projected[1], num_heads_),
                                    split_heads(projected[2], num_heads_), context,
                                    {.dropout = is_training() ? attention_dropout_ : 0, .heads = heads_});
    const at::Tensor attended = dropout_.forward(output_.forward(merge_heads(heads)));
    return norm_.add(input, attended, kernels::NormedFor::residuals).normed;
  }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    heads_ = heads_of_rank(num_heads_, *ranks);
    num_heads_ = range_of(num_heads_, *ranks).size;
    for (Linear* layer : {&query_, &key_, &value_}) layer->split_outputs(ranks);
    output_.split_inputs(ranks);
    dropout_.share_tokens(ranks);
  }
  double flops() const { return query_.flops() + key_.flops() + value_.flops() + output_.flops(); }

 private:
  Linear& query_;
  Linear& key_;
  Linear& value_;
  Linear& output_;
  LayerNorm& norm_;
  Dropout& dropout_;
  std::int64_t num_heads_;  // of this rank
  kernels::HeadRange heads_{};
  TensorRanksPtr ranks_;
  double attention_dropout_;
};

class EncoderLayer final : public SequenceLayer {
 public:
  explicit EncoderLayer(const BertConfig& config)
      : attention_(child<BertSelfAttention>("attention", config)),
        up_(child<Linear>("intermediate.dense", config.hidden_size, config.intermediate_size, kBertInit)),
        down_(child<Linear>("output.dense", config.intermediate_size, config.hidden_size, kBertInit)),
        norm_(child<LayerNorm>("output.LayerNorm", config.hidden_size, config.layer_norm_epsilon)),
        dropout_(child<Dropout>("output.dropout", config.dropout)) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const at::Tensor attended = attention_.forward(input, context);
    const auto [inner, bias] = up_.forward_before_bias(enter_split_layer(attended, ranks_));
    const at::Tensor fed = dropout_.forward(down_.forward(kernels::bias_gelu(inner, bias, kernels::Gelu::erf)));
    return norm_.add(attended, fed, kernels::NormedFor::residuals).normed;
  }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    up_.split_outputs(ranks);
    down_.split_inputs(ranks);
    dropout_.share_tokens(ranks);
  }
  double flops() const { return attention_.flops() + up_.flops() + down_.flops(); }

 private:
  BertSelfAttention& attention_;
  Linear& up_;
  Linear& down_;
  LayerNorm& norm_;
  Dropout& dropout_;
  TensorRanksPtr ranks_;
};

/// Predicts masked tokens with the word embeddings as output weights, plus a bias.
class MaskedLmHead final : public VocabularyHead {
 public:
  MaskedLmHead(const BertConfig& config, const at::Tensor& word_weight)
      : weight_(word_weight),
        bias_(parameter("bias", {word_weight.size(0)}, Init::constant(0))),
        dense_(child<Linear>("transform.dense", config.hidden_size, config.size_of_embeddings(), kBertInit)),
        norm_(child<LayerNorm>("transform.LayerNorm", config.size_of_embeddings(), config.layer_norm_epsilon)) {}

  at::Tensor transform(const at::Tensor& hidden) override {
    return norm_.forward(kernels::gelu(dense_.forward(hidden), kernels::Gelu::erf));
  }
  void split_own(const TensorRanks& ranks) override { keep_part(bias_, 0, ranks); }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return bias_; }
  double flops() const { return dense_.flops() + 2.0 * static_cast<double>(weight_.numel()); }

 private:
  const at::Tensor& weight_;  // [V, E]
  at::Tensor& bias_;          // [V]
  Linear& dense_;
  LayerNorm& norm_;
};

/// Head with one output row per sequence.
class SequenceHead final : public SequenceLayer {
 public:
  SequenceHead(const BertConfig& config, std::int64_t num_outputs)
      : pooling_(config.pooling),
        activation_(config.resolved_pooler()),
        is_normalized_(config.normalize_pooled),
        pooler_(activation_ == BertPooler::none
                    ? nullptr
                    : &child<Linear>("bert.pooler.dense", config.hidden_size, config.hidden_size, kBertInit)),
        dropout_before_(config.dropout_before_pooler ? &child<Dropout>("pooler_dropout", config.dropout_of_classifier())
                                                     : nullptr),
        dropout_(child<Dropout>("dropout", config.dropout_of_classifier())),
        classifier_(child<Linear>("classifier", config.hidden_size, num_outputs, kBertInit)) {}

  at::Tensor compute(const at::Tensor& hidden, const SequenceContext& context) override {
    at::Tensor pooled = pool(hidden, context.key_mask);
    if (is_normalized_) pooled = unit_length(pooled);
    if (dropout_before_ != nullptr) pooled = dropout_before_->forward(pooled);
    if (pooler_ != nullptr) pooled = activate(pooler_->forward(pooled));
    return classifier_.forward(dropout_.forward(pooled));
  }
  double flops() const { return (pooler_ == nullptr ? 0 : pooler_->flops()) + classifier_.flops(); }

 private:
  at::Tensor pool(const at::Tensor& hidden, const at::Tensor& key_mask) const {
    switch (pooling_) {
      case BertPooling::mean:
        return mean_of_tokens(hidden, key_mask);
      case BertPooling::max:
        return max_of_tokens(hidden, key_mask);
      case BertPooling::first:
        break;
    }
    return hidden.select(1, 0);
  }
  at::Tensor activate(const at::Tensor& value) const {
    switch (activation_) {
      case BertPooler::gelu:
        return kernels::gelu(value, kernels::Gelu::erf);
      case BertPooler::relu:
        return at::relu(value);
      case BertPooler::auto_:
      case BertPooler::none:
      case BertPooler::tanh:
        break;
    }
    return at::tanh(value);
  }

  BertPooling pooling_;
  BertPooler activation_;
  bool is_normalized_;
  Linear* pooler_;           // null: none
  Dropout* dropout_before_;  // null: none
  Dropout& dropout_;
  Linear& classifier_;
};

/// Head with one output row per token.
class TokenHead final : public UnaryLayer {
 public:
  TokenHead(const BertConfig& config, std::int64_t num_outputs)
      : dropout_(child<Dropout>("dropout", config.dropout_of_classifier())),
        classifier_(child<Linear>("classifier", config.hidden_size, num_outputs, kBertInit)) {}
  at::Tensor compute(const at::Tensor& hidden) override { return classifier_.forward(dropout_.forward(hidden)); }
  double flops() const { return classifier_.flops(); }

 private:
  Dropout& dropout_;
  Linear& classifier_;
};

class Bert final : public Model {
 public:
  Bert(const BertConfig& config, const InputSpec& input) {
    const std::int64_t length = sequence_length(input, BertConfig::kind, config.longest());
    const std::int64_t vocab_size = vocabulary(config.vocab_size, input);
    check_padding(config.pad_token_id, vocab_size);
    auto& embeddings = child<BertEmbeddings>("bert.embeddings", config, vocab_size);
    add_block("bert.embeddings", embeddings);
    double per_token =
        embeddings.flops() + attention_flops(length, config.hidden_size) * static_cast<double>(config.num_layers);
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      const std::string name = "bert.encoder.layer." + std::to_string(i);
      auto& layer = child<EncoderLayer>(name, config);
      add_block(name, layer);
      per_token += layer.flops();
    }
    flops_ = per_token * static_cast<double>(length) + add_head(config, input, embeddings.word_weight());
  }

  double flops_per_sample() const override { return flops_; }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    core::ensure(input.cache == nullptr, "bert sees all tokens at once and takes no cache");
    return make_context(input, Causality::bidirectional);
  }

 private:
  /// Adds the head. Returns the head's FLOPs for one sample.
  double add_head(const BertConfig& config, const InputSpec& input, const at::Tensor& word_weight) {
    const auto length = static_cast<double>(input.shape[0]);
    switch (config.resolved_head(input.num_classes > 0)) {
      case BertHead::classification: {
        auto& head = child<SequenceHead>("", config, num_outputs_or_one(config.num_classes, input));
        add_block("head", head);
        return head.flops();
      }
      case BertHead::token_classification: {
        auto& head = child<TokenHead>("", config, num_outputs(config.num_classes, input));
        add_block("head", head);
        return head.flops() * length;
      }
      case BertHead::auto_:
      case BertHead::masked_lm:
        break;
    }
    auto& head = child<MaskedLmHead>("cls.predictions", config, word_weight);
    add_vocabulary_head("cls.predictions", head);
    return head.flops() * length;
  }

  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const BertConfig& config, const InputSpec& input) {
  check_heads(config.hidden_size, config.num_heads);
  return std::make_unique<Bert>(config, input);
}

}  // namespace trainctl::model
