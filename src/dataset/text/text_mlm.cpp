// Masked language modelling: sequence i is the i-th run of tokens between a begin and an end token; which of them are
// masked is drawn anew each epoch from (seed, epoch, i).
#include <algorithm>
#include <array>

#include "core/error.h"
#include "dataset/collate/token_rows.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

struct MaskTokens {
  std::int64_t mask;
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
  std::int64_t vocab_size;
};

MaskTokens mask_tokens(const tokenizer::Tokenizer& tokenizer, const std::string& name) {
  const tokenizer::SpecialTokenIds roles = tokenizer.roles();
  if (!roles.mask)
    throw core::Error("the tokenizer " + name + " has no mask token")
        .hint("text_mlm needs one like BERT's; text_lm needs none");
  return {.mask = *roles.mask, .begin = roles.begin, .end = roles.end, .vocab_size = tokenizer.vocab_size()};
}

class TextMlm final : public RawSource {
 public:
  TextMlm(TokenRange range, const TextMlmConfig& config, const MaskTokens& tokens)
      : range_(std::move(range)),
        length_(config.seq_len),
        probability_(config.mask_probability),
        whole_words_(config.whole_words),
        tokens_(tokens) {
    check_sequences(range_, body(), length_);
    spec_.input_shape = {length_};
    spec_.input_dtype = at::kLong;
    spec_.vocab_size = tokens.vocab_size;
    spec_.targets = Targets::masked_tokens;
  }

  std::int64_t size() const override { return range_.size() / body(); }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return length_ * kIdBytes; }
  /// Reads the whole sequence, without masks.
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    const std::span<std::int64_t> ids(reinterpret_cast<std::int64_t*>(sample), static_cast<std::size_t>(length_));
    if (tokens_.begin) ids.front() = *tokens_.begin;
    if (tokens_.end) ids.back() = *tokens_.end;
    range_.store->copy(range_.begin + index * body(),
                       ids.subspan(tokens_.begin ? 1 : 0, static_cast<std::size_t>(body())));
    return 0;
  }
  std::string fingerprint() const override {
    return range_.store->fingerprint() + " " + std::to_string(range_.begin) + "-" + std::to_string(range_.end) + " " +
           std::to_string(length_);
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

  std::int64_t length() const { return length_; }

  /// Masks ids in place, of at least one word. Targets are the former ids, and kNoTarget elsewhere.
  void mask(std::int64_t index, runtime::Random random, std::span<std::int64_t> ids,
            std::span<std::int64_t> targets) const {
    std::fill(targets.begin(), targets.end(), kNoTarget);
    const std::int64_t first = tokens_.begin ? 1 : 0;
    const std::int64_t last = first + body();
    const auto end_of_word = [&](std::int64_t t) {
      do ++t;
      while (whole_words_ && t < last && !range_.store->starts_word(range_.begin + index * body() + t - first));
      return t;
    };
    bool any = false;
    for (std::int64_t t = first, end = 0; t < last; t = end) {
      end = end_of_word(t);
      if (random.uniform() >= probability_) continue;
      for (std::int64_t i = t; i < end; ++i) mask_one(i, random, ids, targets);
      any = true;
    }
    if (any) return;
    const std::int64_t drawn = first + random.below(body());
    std::int64_t begin = first;
    while (end_of_word(begin) <= drawn) begin = end_of_word(begin);
    for (std::int64_t i = begin; i < end_of_word(begin); ++i) mask_one(i, random, ids, targets);
  }

 private:
  /// Returns the number of a sequence's tokens that are text.
  std::int64_t body() const { return length_ - (tokens_.begin ? 1 : 0) - (tokens_.end ? 1 : 0); }

  void mask_one(std::int64_t at, runtime::Random& random, std::span<std::int64_t> ids,
                std::span<std::int64_t> targets) const {
    std::int64_t& id = ids[static_cast<std::size_t>(at)];
    targets[static_cast<std::size_t>(at)] = id;
    const double draw = random.uniform();
    if (draw < 0.8)
      id = tokens_.mask;
    else if (draw < 0.9)
      id = random.below(tokens_.vocab_size);
  }

  TokenRange range_;
  std::int64_t length_;
  double probability_;
  bool whole_words_;
  MaskTokens tokens_;
  SampleSpec spec_;
};

class TextMlmWriter final : public SampleWriter {
 public:
  TextMlmWriter(const TextMlm& source, Phase phase, std::uint64_t seed)
      : source_(source), phase_(phase), key_(runtime::mix(seed, runtime::key_of("masks"))) {}

  /// Returns the bytes of the ids, and of the targets' positions after them.
  std::int64_t input_bytes() const override { return 2 * source_.sample_bytes(); }
  std::int64_t target_count() const override { return source_.length(); }
  Scratch make_scratch() const override { return {}; }

  void write(SampleKey key, Scratch&, std::byte* input, std::int64_t* target) const override {
    source_.get(key.index, input);
    const std::uint64_t epoch = phase_ == Phase::training ? static_cast<std::uint64_t>(key.epoch) : ~std::uint64_t{0};
    const auto length = static_cast<std::size_t>(source_.length());
    source_.mask(key.index, runtime::Random(runtime::mix(key_, epoch, static_cast<std::uint64_t>(key.index))),
                 {reinterpret_cast<std::int64_t*>(input), length}, {target, length});
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    const std::int64_t length = source_.length();
    pack_rows({static_cast<std::int64_t*>(inputs), count, 2 * length}, std::array{RowPart{0, length}});
    BatchMemory memory(inputs, release);
    Batch batch{.inputs = memory.take({count, length}, at::kLong),
                .targets = BatchMemory(targets, release).take({count, length}, at::kLong)};
    batch.target_positions = memory.take_target_positions(batch.targets);
    return batch;
  }

 private:
  const TextMlm& source_;
  Phase phase_;
  std::uint64_t key_;
};

std::unique_ptr<SampleWriter> TextMlm::make_writer(Phase phase, std::uint64_t seed) const {
  return std::make_unique<TextMlmWriter>(*this, phase, seed);
}

}  // namespace

Sources build(const TextMlmConfig& config, const LoaderOptions& options) {
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  const MaskTokens tokens = mask_tokens(*tokenizer, config.tokenizer);
  TokenRanges ranges = token_ranges(prepare_stores(config, *tokenizer, prepare_options(options)),
                                    {.eval_fraction = config.eval_fraction, .test_fraction = config.test_fraction});
  Sources sources{.train = std::make_unique<TextMlm>(std::move(ranges.train), config, tokens)};
  if (ranges.eval.store) sources.eval = std::make_unique<TextMlm>(std::move(ranges.eval), config, tokens);
  if (ranges.test.store) sources.test = std::make_unique<TextMlm>(std::move(ranges.test), config, tokens);
  return sources;
}

}  // namespace trainctl::dataset
