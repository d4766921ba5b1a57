// T5 with transformers' names and initialization (T5ForConditionalGeneration), so checkpoints convert in both
// directions.
//
// What flows from block to block is one tensor [B, S + T + 2 R, D], so that whatever works with a chain of blocks works
// with these, too: the encoder's S tokens, the decoder's T tokens, and R rows for each of the two tables of relative
// positions. All blocks of a stack share a table; as rows it reaches them wherever they are, and its gradient comes
// back.
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/relu.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "kernels/gelu.h"
#include "model/layers/attention.h"
#include "model/layers/dropout.h"
#include "model/layers/embedding.h"
#include "model/layers/linear.h"
#include "model/layers/relative_position.h"
#include "model/layers/rms_norm.h"
#include "model/layers/shared_input.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

Init normal_with(std::int64_t size) {
  return Init::normal(0, 1 / std::sqrt(static_cast<double>(size)));
}

/// A table of relative positions [buckets, heads] as rows [R, D] of the hidden values.
class TableRows {
 public:
  explicit TableRows(const T5Config& config)
      : buckets_(config.relative_attention_num_buckets), heads_(config.num_heads), width_(config.hidden_size) {}

  std::int64_t count() const { return (buckets_ * heads_ + width_ - 1) / width_; }
  at::Tensor pack(const at::Tensor& table) const {
    return at::constant_pad_nd(table.flatten(), {0, count() * width_ - buckets_ * heads_})
        .unflatten(0, {count(), width_});
  }
  at::Tensor unpack(const at::Tensor& rows) const {
    return rows.flatten().narrow(0, 0, buckets_ * heads_).unflatten(0, {buckets_, heads_});
  }

 private:
  std::int64_t buckets_;
  std::int64_t heads_;
  std::int64_t width_;
};

/// The parts of what flows from block to block. Each sample has the same rows of tables.
class Stream {
 public:
  Stream(const at::Tensor& hidden, const SequenceContext& context, const TableRows& tables)
      : hidden_(hidden), tables_(tables), source_(context.source_length), rest_(hidden.size(1) - source_) {}

  at::Tensor source() const { return hidden_.narrow(1, 0, source_); }
  at::Tensor target() const { return hidden_.narrow(1, source_, rest_ - 2 * tables_.count()); }
  at::Tensor source_table() const { return table(2); }
  at::Tensor target_table() const { return table(1); }
  at::Tensor with_source(const at::Tensor& source) const {
    return at::cat({source, hidden_.narrow(1, source_, rest_)}, 1);
  }
  at::Tensor with_target(const at::Tensor& target) const {
    const std::int64_t count = 2 * tables_.count();
    return at::cat({source(), target, hidden_.narrow(1, hidden_.size(1) - count, count)}, 1);
  }

 private:
  at::Tensor table(std::int64_t from_end) const {
    return tables_.unpack(hidden_[0].narrow(0, hidden_.size(1) - from_end * tables_.count(), tables_.count()));
  }

  const at::Tensor& hidden_;
  const TableRows& tables_;
  std::int64_t source_;
  std::int64_t rest_;
};

class T5Embeddings final : public SequenceLayer {
 public:
  T5Embeddings(const T5Config& config, std::int64_t vocab_size)
      : tokens_(child<Embedding>("shared", vocab_size, config.hidden_size, Init::normal(0, 1))),
        source_table_(child<Embedding>("encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
                                       config.relative_attention_num_buckets, config.num_heads,
                                       normal_with(config.hidden_size))),
        target_table_(child<Embedding>("decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
                                       config.relative_attention_num_buckets, config.num_heads,
                                       normal_with(config.hidden_size))),
        dropout_(child<Dropout>("dropout", config.dropout)),
        tables_(config) {}

  at::Tensor compute(const at::Tensor& ids, const SequenceContext& context) override {
    const at::Tensor source = dropout_.forward(tokens_.forward(ids));
    const at::Tensor target = dropout_.forward(tokens_.forward(context.decoder_ids));
    const at::Tensor tables = at::cat({tables_.pack(source_table_.weight()), tables_.pack(target_table_.weight())});
    return at::cat({source, target, tables.unsqueeze(0).expand({ids.size(0), -1, -1})}, 1);
  }
  const at::Tensor& word_weight() const { return tokens_.weight(); }

 private:
  Embedding& tokens_;
  Embedding& source_table_;
  Embedding& target_table_;
  Dropout& dropout_;
  TableRows tables_;
};

/// Attention of tokens to each other, or to `context.source`.
class T5Attention final : public SequenceLayer {
 public:
  T5Attention(const T5Config& config, std::int64_t place_in_cache)
      : query_(child<Linear>("q", config.hidden_size, config.inner_size(),
                             normal_with(config.hidden_size * config.size_of_head()), Bias::none)),
        key_(child<Linear>("k", config.hidden_size, config.inner_size(), normal_with(config.hidden_size), Bias::none)),
        value_(
            child<Linear>("v", config.hidden_size, config.inner_size(), normal_with(config.hidden_size), Bias::none)),
        output_(
            child<Linear>("o", config.inner_size(), config.hidden_size, normal_with(config.inner_size()), Bias::none)),
        num_heads_(config.num_heads),
        // attend() divides scores by the root of the head size, and T5 doesn't.
        query_scale_(std::sqrt(static_cast<double>(config.size_of_head()))),
        place_in_cache_(static_cast<std::size_t>(place_in_cache)),
        dropout_(config.dropout) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const std::vector<at::Tensor> projected =
        context.source.defined()
            ? std::vector{query_.forward(input), key_.forward(context.source), value_.forward(context.source)}
            : forward_each({&query_, &key_, &value_}, input);
    const at::Tensor query = split_heads(projected[0], num_heads_).mul(query_scale_);
    const at::Tensor heads = attend(query, split_heads(projected[1], num_heads_), split_heads(projected[2], num_heads_),
                                    context, {.layer = place_in_cache_, .dropout = is_training() ? dropout_ : 0});
    return output_.forward(merge_heads(heads));
  }
  /// Returns the FLOPs of the projections of one token that asks, and of one that is asked.
  double query_flops() const { return query_.flops() + output_.flops(); }
  double key_flops() const { return key_.flops() + value_.flops(); }

 private:
  Linear& query_;
  Linear& key_;
  Linear& value_;
  Linear& output_;
  std::int64_t num_heads_;
  double query_scale_;
  std::size_t place_in_cache_;
  double dropout_;
};

class T5FeedForwardLayer final : public UnaryLayer {
 public:
  explicit T5FeedForwardLayer(const T5Config& config)
      : gate_(config.feed_forward_proj == T5FeedForward::relu ? nullptr : &up(config, "wi_0")),
        up_(up(config, gate_ == nullptr ? "wi" : "wi_1")),
        dropout_(child<Dropout>("dropout", config.dropout)),
        down_(child<Linear>("wo", config.intermediate_size, config.hidden_size, normal_with(config.intermediate_size),
                            Bias::none)) {}

  at::Tensor compute(const at::Tensor& input) override {
    if (gate_ == nullptr) return down_.forward(dropout_.forward(at::relu(up_.forward(input))));
    const std::vector<at::Tensor> inner = forward_each({gate_, &up_}, input);
    return down_.forward(dropout_.forward(kernels::gelu(inner[0], kernels::Gelu::tanh).mul(inner[1])));
  }
  double flops() const { return (gate_ == nullptr ? 0 : gate_->flops()) + up_.flops() + down_.flops(); }

 private:
  Linear& up(const T5Config& config, const char* name) {
    return child<Linear>(name, config.hidden_size, config.intermediate_size, normal_with(config.hidden_size),
                         Bias::none);
  }

  Linear* gate_;  // null: none
  Linear& up_;
  Dropout& dropout_;
  Linear& down_;
};

/// A residual branch around a layer: x + dropout(layer(norm(x))).
template <class Inner>
class T5Branch final : public SequenceLayer {
 public:
  template <class... Args>
  T5Branch(const char* name, const T5Config& config, Args... args)
      : inner_(child<Inner>(name, config, args...)),
        norm_(child<RmsNorm>("layer_norm", config.hidden_size, config.layer_norm_epsilon)),
        dropout_(child<Dropout>("dropout", config.dropout)) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    return input.add(dropout_.forward(inner_output(norm_.forward(input), context)));
  }
  Inner& inner() const { return inner_; }

 private:
  at::Tensor inner_output(const at::Tensor& normed, const SequenceContext& context) {
    if constexpr (std::is_base_of_v<SequenceLayer, Inner>)
      return inner_.forward(normed, context);
    else
      return inner_.forward(normed);
  }

  Inner& inner_;
  RmsNorm& norm_;
  Dropout& dropout_;
};

class T5EncoderBlock final : public SequenceLayer {
 public:
  explicit T5EncoderBlock(const T5Config& config)
      : attention_(child<T5Branch<T5Attention>>("layer.0", "SelfAttention", config, std::int64_t{0})),
        feed_forward_(child<T5Branch<T5FeedForwardLayer>>("layer.1", "DenseReluDense", config)),
        tables_(config) {}

  at::Tensor compute(const at::Tensor& hidden, const SequenceContext& context) override {
    if (context.source_length == 0) return hidden;  // the cache has what the decoder needs of the source
    const Stream stream(hidden, context, tables_);
    SequenceContext own = context;
    own.cache = nullptr;
    own.position_bias = position_bias(stream.source_table(), context.source_buckets);
    const at::Tensor attended = attention_.forward(stream.source(), own);
    return stream.with_source(feed_forward_.forward(attended, own));
  }
  /// Returns the FLOPs of one token's matrices.
  double flops() const {
    return attention_.inner().query_flops() + attention_.inner().key_flops() + feed_forward_.inner().flops();
  }

 private:
  T5Branch<T5Attention>& attention_;
  T5Branch<T5FeedForwardLayer>& feed_forward_;
  TableRows tables_;
};

class T5DecoderBlock final : public SequenceLayer {
 public:
  /// The cache has the cross-attention of all blocks first: what is last tells its length.
  T5DecoderBlock(const T5Config& config, std::int64_t index)
      : attention_(child<T5Branch<T5Attention>>("layer.0", "SelfAttention", config, config.decoder_layers() + index)),
        cross_attention_(child<T5Branch<T5Attention>>("layer.1", "EncDecAttention", config, index)),
        feed_forward_(child<T5Branch<T5FeedForwardLayer>>("layer.2", "DenseReluDense", config)),
        tables_(config) {}

  at::Tensor compute(const at::Tensor& hidden, const SequenceContext& context) override {
    const Stream stream(hidden, context, tables_);
    SequenceContext own = context;
    own.mask = at::Tensor();
    own.is_causal = stream.target().size(1) > 1;
    own.position_bias = position_bias(stream.target_table(), context.target_buckets);
    SequenceContext cross = context;
    cross.source = stream.source();
    const at::Tensor attended = cross_attention_.forward(attention_.forward(stream.target(), own), cross);
    return stream.with_target(feed_forward_.forward(attended, own));
  }
  /// Returns the FLOPs of one target token's matrices, and of those for each source token.
  double target_flops() const {
    return attention_.inner().query_flops() + attention_.inner().key_flops() + cross_attention_.inner().query_flops() +
           feed_forward_.inner().flops();
  }
  double source_flops() const { return cross_attention_.inner().key_flops(); }

 private:
  T5Branch<T5Attention>& attention_;
  T5Branch<T5Attention>& cross_attention_;
  T5Branch<T5FeedForwardLayer>& feed_forward_;
  TableRows tables_;
};

/// The norm after a stack. That of the decoder gives the decoder's tokens alone.
class T5FinalNorm final : public SequenceLayer {
 public:
  enum class Stack { encoder, decoder };
  T5FinalNorm(const T5Config& config, Stack stack)
      : norm_(child<RmsNorm>("", config.hidden_size, config.layer_norm_epsilon)),
        dropout_(child<Dropout>("dropout", config.dropout)),
        tables_(config),
        stack_(stack) {}

  at::Tensor compute(const at::Tensor& hidden, const SequenceContext& context) override {
    const Stream stream(hidden, context, tables_);
    if (stack_ == Stack::decoder) return dropout_.forward(norm_.forward(stream.target()));
    if (context.source_length == 0) return hidden;
    return stream.with_source(dropout_.forward(norm_.forward(stream.source())));
  }

 private:
  RmsNorm& norm_;
  Dropout& dropout_;
  TableRows tables_;
  Stack stack_;
};

class T5Head final : public VocabularyHead {
 public:
  T5Head(const T5Config& config, std::int64_t vocab_size, const at::Tensor& word_weight)
      : scale_(config.tie_embeddings ? 1 / std::sqrt(static_cast<double>(config.hidden_size)) : 1),
        weight_(config.tie_embeddings
                    ? word_weight
                    : parameter("lm_head.weight", {vocab_size, config.hidden_size}, Init::normal(0, 1))) {}

  at::Tensor transform(const at::Tensor& hidden) override { return scale_ == 1 ? hidden : hidden.mul(scale_); }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return {}; }

 private:
  double scale_;
  const at::Tensor& weight_;
};

class T5 final : public Model {
 public:
  T5(const T5Config& config, const InputSpec& input) : config_(config) {
    const std::int64_t source = sequence_length(input, T5Config::kind, std::numeric_limits<std::int64_t>::max());
    const auto source_length = static_cast<double>(source);
    const std::int64_t target = input.target_length > 0 ? input.target_length : source;
    const auto target_length = static_cast<double>(target);
    const std::int64_t vocab_size = vocabulary(config.vocab_size, input);
    auto& embeddings = child<T5Embeddings>("", config, vocab_size);
    add_block("shared", embeddings);
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      const std::string name = "encoder.block." + std::to_string(i);
      auto& block = child<T5EncoderBlock>(name, config);
      add_block(name, block);
      flops_ += (block.flops() + attention_flops(source, config.inner_size())) * source_length;
    }
    add_block("encoder.final_layer_norm",
              child<T5FinalNorm>("encoder.final_layer_norm", config, T5FinalNorm::Stack::encoder));
    for (std::int64_t i = 0; i < config.decoder_layers(); ++i) {
      const std::string name = "decoder.block." + std::to_string(i);
      auto& block = child<T5DecoderBlock>(name, config, i);
      add_block(name, block);
      flops_ += block.source_flops() * source_length +
                (block.target_flops() + attention_flops(source + target, config.inner_size())) * target_length;
    }
    add_block("decoder.final_layer_norm",
              child<T5FinalNorm>("decoder.final_layer_norm", config, T5FinalNorm::Stack::decoder));
    add_vocabulary_head("lm_head", child<T5Head>("", config, vocab_size, embeddings.word_weight()));
    flops_ += 2.0 * static_cast<double>(vocab_size * config.hidden_size) * target_length;
  }

  double flops_per_sample() const override { return flops_; }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    if (!input.decoder_values.defined())
      throw core::Error("model t5 needs the tokens of a target beside those of a source, and the input has none")
          .hint("take dataset: {kind: text_seq2seq}, or a model for single sequences");
    SequenceContext context{.key_mask = input.key_mask, .cache = input.cache};
    context.source_length = input.values.size(1);
    context.decoder_ids = input.decoder_values;
    if (input.key_mask.defined()) context.mask = input.key_mask.unsqueeze(1).unsqueeze(1);  // [B, 1, 1, S]
    const std::int64_t seen = input.cache == nullptr ? 0 : input.cache->length();
    const std::int64_t length = input.decoder_values.size(1);
    core::ensure(seen == 0 || length == 1, "with a cache, the decoder goes on by one token");
    RelativeBuckets buckets{.count = config_.relative_attention_num_buckets,
                            .max_distance = config_.relative_attention_max_distance,
                            .causality = Causality::bidirectional};
    context.source_buckets = bucket_numbers({.queries = context.source_length, .keys = context.source_length}, buckets,
                                            input.values.device());
    buckets.causality = Causality::causal;
    context.target_buckets = bucket_numbers({.queries = length, .keys = seen + length}, buckets, input.values.device());
    return context;
  }

 private:
  T5Config config_;
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const T5Config& config, const InputSpec& input) {
  if (config.head_size.is_auto()) check_heads(config.hidden_size, config.num_heads);
  return std::make_unique<T5>(config, input);
}

}  // namespace trainctl::model
