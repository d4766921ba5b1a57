// LSTM (https://doi.org/10.1162/neco.1997.9.8.1735) over tokens: a language model or a classifier of the last states.
// The language model has the names and initialization of PyTorch's word_language_model example.
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "kernels/dropout.h"
#include "kernels/portable.h"
#include "model/layers/dropout.h"
#include "model/layers/embedding.h"
#include "model/layers/linear.h"
#include "model/layers/lstm_operator.h"
#include "model/networks.h"
#include "model/sequence.h"
#include "runtime/fake_tensor.h"

namespace trainctl::model {
namespace {

/// Token number t of every sequence, longest first, then number t + 1 of those that have one, and so on.
struct PackedSequences {
  at::Tensor places;       // int64 [N]: where each token stands in [B T]
  at::Tensor batch_sizes;  // int64 [longest] on the CPU: how many sequences have a token t
  std::int64_t num_sequences() const { return batch_sizes.data_ptr<std::int64_t>()[0]; }
};

struct Run {
  std::int64_t begin;  // position in [B T]
  std::int64_t length;
};

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.to(at::kCPU).contiguous();
}

std::vector<Run> find_runs(const SequenceContext& context, std::int64_t num_rows, std::int64_t length) {
  const at::Tensor mask = context.key_mask.defined() ? on_host(context.key_mask) : at::Tensor();
  const bool has_documents = context.positions.defined() && context.positions.dim() == 2;
  const at::Tensor positions = has_documents ? on_host(context.positions) : at::Tensor();
  const bool* valid = mask.defined() ? mask.const_data_ptr<bool>() : nullptr;
  const std::int64_t* position = has_documents ? positions.const_data_ptr<std::int64_t>() : nullptr;
  std::vector<Run> runs;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    bool in_run = false;
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
      const bool is_token = valid == nullptr || valid[i];
      const bool begins = is_token && (!in_run || (position != nullptr && position[i] == 0));
      if (begins) runs.push_back({.begin = i, .length = 0});
      if (is_token) ++runs.back().length;
      in_run = is_token;
    }
  }
  return runs;
}

/// Each run of tokens that no padding and no document's start interrupts is a sequence. Reads the context's masks on
/// the CPU (a synchronisation on other devices). `like` is [B, T, ...].
PackedSequences pack(const SequenceContext& context, const at::Tensor& like) {
  const runtime::RealScope values_are_needed;
  std::vector<Run> runs = find_runs(context, like.size(0), like.size(1));
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.length > b.length; });
  if (runs.empty()) throw core::Error("a batch has only padding; expected at least one token");
  std::int64_t num_tokens = 0;
  for (const Run& run : runs) num_tokens += run.length;
  const auto ids = at::TensorOptions().dtype(at::kLong).device(at::kCPU);
  const at::Tensor places = at::empty({num_tokens}, ids);
  at::Tensor batch_sizes = at::empty({runs.front().length}, ids);
  auto* place = places.mutable_data_ptr<std::int64_t>();
  auto* size = batch_sizes.mutable_data_ptr<std::int64_t>();
  std::size_t active = runs.size();
  for (std::int64_t t = 0; t < runs.front().length; ++t) {
    while (runs[active - 1].length <= t) --active;
    for (std::size_t i = 0; i < active; ++i) *place++ = runs[i].begin + t;
    size[t] = static_cast<std::int64_t>(active);
  }
  return {.places = places.to(like.device()), .batch_sizes = std::move(batch_sizes)};
}

constexpr Init kLstmInit = Init::uniform(0.1);

class Encoder final : public UnaryLayer {
 public:
  Encoder(const LstmConfig& config, std::int64_t vocab_size)
      : tokens_(child<Embedding>("", vocab_size, config.size_of_embedding(), kLstmInit)),
        dropout_(child<Dropout>("drop", config.dropout)) {}
  at::Tensor compute(const at::Tensor& ids) override { return dropout_.forward(tokens_.forward(ids)); }
  const at::Tensor& token_weight() const { return tokens_.weight(); }

 private:
  Embedding& tokens_;
  Dropout& dropout_;
};

/// Recurrent layers with torch.nn.LSTM's names, in one fused operator, or one per layer if there is dropout between
/// them. Padding is skipped and gives zeros; documents start from zero states.
class Recurrence final : public SequenceLayer {
 public:
  explicit Recurrence(const LstmConfig& config)
      : dropout_(child<Dropout>("drop", config.dropout)),
        operator_(child<LstmOperator>("", LstmShape{.input_size = config.size_of_embedding(),
                                                    .hidden_size = config.hidden_size,
                                                    .num_layers = config.num_layers,
                                                    .num_directions = config.bidirectional ? 2 : 1})),
        hidden_size_(config.hidden_size),
        num_layers_(config.num_layers),
        num_directions_(config.bidirectional ? 2 : 1),
        between_layers_(config.dropout) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    if (!stays_in_fp32(input)) return recur(input, context);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return recur(input.to(at::kFloat), context);
  }
  /// Returns the FLOPs of one token.
  double flops() const { return operator_.flops(); }

 private:
  using States = LstmStates;

  /// Whether to leave autocast: oneDNN's LSTM in autocast's dtype needs instructions that this CPU lacks.
  static bool stays_in_fp32(const at::Tensor& input) {
    if (!input.is_cpu() || !at::autocast::is_autocast_enabled(at::kCPU)) return false;
    return !onednn_has_lstm_of(at::autocast::get_autocast_dtype(at::kCPU));
  }

  at::Tensor recur(const at::Tensor& input, const SequenceContext& context) {
    if (kernels::PortableOperators::are_wanted() && operator_.stand_in() != nullptr)
      throw core::Error("an LSTM in eight bits rounds its states at every step, which no exported graph can express")
          .hint(
              "quantize again with --skip-modules and the LSTM's name, or export the checkpoint that isn't quantized");
    const bool has_documents = context.positions.dim() == 2;
    const bool whole_rows = !context.key_mask.defined() && !has_documents;
    core::ensure(whole_rows || context.cache == nullptr, "a cache holds unpadded rows of one document");
    if (whole_rows) return dropout_.forward(over_rows(input, context.cache));
    return dropout_.forward(kernels::PortableOperators::are_wanted() ? over_padded(input, context)
                                                                     : over_packed(input, context));
  }

  at::Tensor over_rows(const at::Tensor& input, KeyValueCache* cache) {
    if (drops_between_layers()) {
      at::Tensor value = input;
      for (std::int64_t layer = 0; layer < num_layers_; ++layer) {
        if (layer > 0) value = kernels::dropout(value, between_layers_);
        const States states = zeros(input, input.size(0), 1);
        value = std::get<0>(at::lstm(value, {states.hidden, states.cell}, weights_of(layer), /*has_biases=*/true,
                                     /*num_layers=*/1, /*dropout=*/0, /*train=*/true, num_directions_ == 2,
                                     /*batch_first=*/true));
      }
      return value;
    }
    States states =
        cache != nullptr && cache->length() > 0 ? last_states(*cache, input) : zeros(input, input.size(0), num_layers_);
    if (operator_.stand_in() != nullptr) {
      const LstmResult result = operator_.stand_in()->compute(input, {}, states);
      if (cache != nullptr) remember(*cache, result.states, input.size(1));
      return result.output;
    }
    const auto [output, hidden, cell] =
        at::lstm(input, {states.hidden, states.cell}, weights(), /*has_biases=*/true, num_layers_,
                 kernels::PortableOperators::are_wanted() ? between_layers_ : 0, is_training(), num_directions_ == 2,
                 /*batch_first=*/true);
    if (cache != nullptr) remember(*cache, {.hidden = hidden, .cell = cell}, input.size(1));
    return output;
  }

  at::Tensor over_packed(const at::Tensor& input, const SequenceContext& context) {
    const PackedSequences packed = pack(context, input);
    const auto run = [&](const at::Tensor& rows, const std::vector<at::Tensor>& layers, std::int64_t num_layers) {
      const at::Tensor tokens = rows.flatten(0, 1).index_select(0, packed.places);
      const States states = zeros(input, packed.num_sequences(), num_layers);
      const at::Tensor output =
          operator_.stand_in() != nullptr
              ? operator_.stand_in()->compute(tokens, packed.batch_sizes, states).output
              : std::get<0>(at::lstm(tokens, packed.batch_sizes, {states.hidden, states.cell}, layers,
                                     /*has_biases=*/true, num_layers, /*dropout=*/0, is_training(),
                                     num_directions_ == 2));
      return at::zeros({input.size(0) * input.size(1), output.size(1)}, output.options())
          .index_copy(0, packed.places, output)
          .unflatten(0, {input.size(0), input.size(1)});
    };
    if (!drops_between_layers()) return run(input, weights(), num_layers_);
    at::Tensor value = input;
    for (std::int64_t layer = 0; layer < num_layers_; ++layer)
      value = run(layer == 0 ? value : kernels::dropout(value, between_layers_), weights_of(layer), 1);
    return value;
  }

  /// Runs rows whose padding is at the end, with plain operators. Each direction runs separately; the backward
  /// direction runs over rows reversed up to their last token.
  at::Tensor over_padded(const at::Tensor& input, const SequenceContext& context) {
    core::ensure(context.key_mask.defined() && context.positions.dim() == 1, "rows hold one document");
    const at::Tensor is_token = context.key_mask.unsqueeze(2).to(input.scalar_type());             // [B, T, 1]
    const at::Tensor last = context.key_mask.to(at::kLong).sum(1, /*keepdim=*/true).sub(1);        // [B, 1]
    const at::Tensor turned = last.sub(context.positions.unsqueeze(0)).clamp_min(0).unsqueeze(2);  // [B, T, 1]
    const auto turn = [&](const at::Tensor& rows) { return rows.gather(1, turned.expand({-1, -1, rows.size(2)})); };
    at::Tensor value = input;
    for (std::int64_t layer = 0; layer < num_layers_; ++layer) {
      if (layer > 0 && between_layers_ > 0) value = at::dropout(value, between_layers_, is_training());
      const at::Tensor forwards = one_direction(value, layer, 0);
      value = num_directions_ == 1 ? forwards : at::cat({forwards, turn(one_direction(turn(value), layer, 1))}, 2);
      value = value.mul(is_token);
    }
    return value;
  }
  at::Tensor one_direction(const at::Tensor& input, std::int64_t layer, std::int64_t direction) const {
    const std::vector<at::Tensor> layers = weights_of(layer);
    const at::Tensor zero = at::zeros({1, input.size(0), hidden_size_}, input.options());
    return std::get<0>(at::lstm(input, {zero, zero}, at::TensorList(layers).slice(4 * direction, 4),
                                /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0, is_training(),
                                /*bidirectional=*/false, /*batch_first=*/true));
  }

  /// Whether layers run one by one, since the fused operator's dropout depends on the batch.
  bool drops_between_layers() const { return is_training() && between_layers_ > 0 && num_layers_ > 1; }

  std::vector<at::Tensor> weights_of(std::int64_t layer) const { return operator_.weights_of(layer); }
  std::vector<at::Tensor> weights() const { return operator_.weights(); }

  States zeros(const at::Tensor& like, std::int64_t num_sequences, std::int64_t num_layers) const {
    const at::Tensor zero = at::zeros({num_layers * num_directions_, num_sequences, hidden_size_}, like.options());
    return {.hidden = zero, .cell = zero};
  }

  /// Stores states in the cache [B, heads, T, size]. Layers take the place of heads; only the last token's states are
  /// read.
  static void remember(KeyValueCache& cache, const States& states, std::int64_t length) {
    const auto as_heads = [&](const at::Tensor& state) {
      return state.transpose(0, 1).unsqueeze(2).expand({-1, -1, length, -1});
    };
    cache.append(0, as_heads(states.hidden), as_heads(states.cell));
  }
  States last_states(KeyValueCache& cache, const at::Tensor& input) const {
    const at::Tensor nothing = at::zeros({input.size(0), num_layers_, 0, hidden_size_}, input.options());
    const KeyValueCache::KeysValues all = cache.append(0, nothing, nothing);
    const auto last = [](const at::Tensor& heads) { return heads.select(2, -1).transpose(0, 1).contiguous(); };
    return {.hidden = last(all.keys), .cell = last(all.values)};
  }

  Dropout& dropout_;
  LstmOperator& operator_;
  std::int64_t hidden_size_;
  std::int64_t num_layers_;
  std::int64_t num_directions_;
  double between_layers_;
};

class Decoder final : public VocabularyHead {
 public:
  /// `tied` is the token embeddings; null: the decoder has its own weights.
  Decoder(const LstmConfig& config, std::int64_t vocab_size, const at::Tensor* tied)
      : weight_(tied != nullptr ? *tied : parameter("weight", {vocab_size, config.hidden_size}, kLstmInit)),
        bias_(parameter("bias", {vocab_size}, Init::constant(0))) {}

  at::Tensor transform(const at::Tensor& hidden) override { return hidden; }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return bias_; }
  double flops() const { return 2.0 * static_cast<double>(weight_.numel()); }

 private:
  const at::Tensor& weight_;
  at::Tensor& bias_;
};

/// Head with one output row per sequence, from the state after the last token and, backwards, after the first.
class Classifier final : public SequenceLayer {
 public:
  Classifier(const LstmConfig& config, std::int64_t num_outputs)
      : linear_(child<Linear>("", config.hidden_size * (config.bidirectional ? 2 : 1), num_outputs, kLstmInit)),
        hidden_size_(config.hidden_size),
        bidirectional_(config.bidirectional) {}

  at::Tensor compute(const at::Tensor& hidden, const SequenceContext& context) override {
    const at::Tensor forwards = hidden.narrow(2, 0, hidden_size_);
    at::Tensor first;
    at::Tensor last;
    if (context.key_mask.defined()) {
      const at::Tensor place = at::arange(hidden.size(1), context.positions.options());
      first = at::where(context.key_mask, place, hidden.size(1) - 1).amin(1);
      last = at::where(context.key_mask, place, 0).amax(1);
    }
    at::Tensor state = last.defined() ? at_place(forwards, last) : forwards.select(1, -1);
    if (bidirectional_) {
      const at::Tensor backwards = hidden.narrow(2, hidden_size_, hidden_size_);
      state = at::cat({state, first.defined() ? at_place(backwards, first) : backwards.select(1, 0)}, 1);
    }
    return linear_.forward(state);
  }
  double flops() const { return linear_.flops(); }

 private:
  /// Selects one position per row: [B, T, H] -> [B, H].
  static at::Tensor at_place(const at::Tensor& hidden, const at::Tensor& place) {
    return hidden.gather(1, place.unsqueeze(1).unsqueeze(2).expand({-1, 1, hidden.size(2)})).squeeze(1);
  }

  Linear& linear_;
  std::int64_t hidden_size_;
  bool bidirectional_;
};

void check(const LstmConfig& config, LstmHead head) {
  if (head == LstmHead::language_model && config.bidirectional)
    throw core::Error("a bidirectional lstm sees the tokens that a language model predicts")
        .hint("model.bidirectional: false, or model.head: classification");
  if (config.tie_embeddings && config.size_of_embedding() != config.hidden_size)
    throw core::Error("model.tie_embeddings needs an embedding_size of " + std::to_string(config.hidden_size) +
                      ", the hidden_size");
}

class Lstm final : public Model {
 public:
  Lstm(const LstmConfig& config, const InputSpec& input) {
    const LstmHead head = config.resolved_head(input.num_classes > 0);
    check(config, head);
    const auto length =
        static_cast<double>(sequence_length(input, LstmConfig::kind, std::numeric_limits<std::int64_t>::max()));
    const std::int64_t vocab_size = vocabulary(config.vocab_size, input);
    auto& encoder = child<Encoder>("encoder", config, vocab_size);
    add_block("encoder", encoder);
    auto& recurrence = child<Recurrence>("rnn", config);
    add_block("rnn", recurrence);
    flops_ = recurrence.flops() * length;
    if (head == LstmHead::classification) {
      auto& classifier = child<Classifier>("classifier", config, num_outputs_or_one(config.num_classes, input));
      add_block("classifier", classifier);
      flops_ += classifier.flops();
    } else {
      auto& decoder =
          child<Decoder>("decoder", config, vocab_size, config.tie_embeddings ? &encoder.token_weight() : nullptr);
      add_vocabulary_head("decoder", decoder);
      flops_ += decoder.flops() * length;
    }
  }

  double flops_per_sample() const override { return flops_; }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    return make_context(input, Causality::bidirectional);
  }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const LstmConfig& config, const InputSpec& input) {
  return std::make_unique<Lstm>(config, input);
}

}  // namespace trainctl::model
