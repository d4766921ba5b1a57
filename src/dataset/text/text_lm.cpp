// Next-token prediction: sequence i is tokens [i T, (i + 1) T] of the corpus, its targets their successors. Documents
// are packed in the order of the files, so that nothing but the tokens need be known; the sequences' order is new each
// epoch.
#include <algorithm>
#include <array>

#include "dataset/collate/token_rows.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"

namespace trainctl::dataset {
namespace {

class TextLm final : public RawSource {
 public:
  TextLm(TokenRange range, const TextLmConfig& config, std::int64_t vocab_size,
         const std::shared_future<std::int64_t>& num_bytes)
      : range_(std::move(range)), length_(config.seq_len), document_mask_(config.document_mask) {
    check_sequences(range_, length_ + 1, length_);
    spec_.input_shape = {length_};
    spec_.input_dtype = at::kLong;
    spec_.vocab_size = vocab_size;
    spec_.targets = Targets::next_tokens;
    spec_.bytes_per_token =
        std::async(std::launch::deferred, [num_bytes, num_tokens = static_cast<double>(range_.size())] {
          return static_cast<double>(num_bytes.get()) / num_tokens;
        }).share();
  }

  std::int64_t size() const override { return (range_.size() - 1) / length_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return (length_ + 1) * kIdBytes; }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    range_.store->copy(begin_of(index),
                       {reinterpret_cast<std::int64_t*>(sample), static_cast<std::size_t>(length_ + 1)});
    return 0;
  }
  std::string fingerprint() const override {
    return range_.store->fingerprint() + " " + std::to_string(range_.begin) + "-" + std::to_string(range_.end) + " " +
           std::to_string(length_);
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

  /// Writes each token's document number, counted from the sequence's first document.
  void write_documents(std::int64_t index, std::int64_t* numbers) const {
    const std::int64_t begin = begin_of(index);
    const std::int64_t first = range_.store->document_of(begin);
    std::int64_t document = first;
    for (std::int64_t t = 0; t < length_; ++t) {
      while (document + 1 < range_.store->num_documents() && range_.store->document_start(document + 1) <= begin + t)
        ++document;
      numbers[t] = document - first;
    }
  }
  /// Returns whether the sequence's last token is its document's last.
  bool ends_document(std::int64_t index) const {
    const std::int64_t next = begin_of(index) + length_;
    return range_.store->document_of(next) != range_.store->document_of(next - 1);
  }
  bool document_mask() const { return document_mask_; }
  std::int64_t length() const { return length_; }

 private:
  std::int64_t begin_of(std::int64_t index) const { return range_.begin + index * length_; }

  TokenRange range_;
  std::int64_t length_;
  bool document_mask_;
  SampleSpec spec_;
};

/// A writer of rows of T ids. Separate documents add T numbers and room for T positions.
class TextLmWriter final : public SampleWriter {
 public:
  explicit TextLmWriter(const TextLm& source)
      : source_(source), length_(source.length()), document_mask_(source.document_mask()) {}

  std::int64_t input_bytes() const override { return stride() * kIdBytes; }
  std::int64_t target_count() const override { return length_; }
  Scratch make_scratch() const override {
    return {.tokens = std::vector<std::int64_t>(static_cast<std::size_t>(length_ + 1))};
  }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    source_.get(key.index, reinterpret_cast<std::byte*>(scratch.tokens.data()));
    auto* ids = reinterpret_cast<std::int64_t*>(input);
    std::copy_n(scratch.tokens.data(), length_, ids);
    std::copy_n(scratch.tokens.data() + 1, length_, target);
    if (!document_mask_) return;
    std::int64_t* const numbers = ids + length_;
    source_.write_documents(key.index, numbers);
    for (std::int64_t t = 0; t < length_; ++t)
      if (t + 1 < length_ ? numbers[t + 1] != numbers[t] : source_.ends_document(key.index)) target[t] = kNoTarget;
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    auto* const values = static_cast<std::int64_t*>(inputs);
    if (document_mask_)
      pack_rows({values, count, stride()}, std::array{RowPart{0, length_}, RowPart{length_, length_}});
    BatchMemory memory(inputs, release);
    Batch batch{.inputs = memory.take({count, length_}, at::kLong),
                .targets = BatchMemory(targets, release).take({count, length_}, at::kLong)};
    if (!document_mask_) return batch;
    batch.documents = memory.take({count, length_}, at::kLong);
    batch.target_positions = memory.take_target_positions(batch.targets);
    return batch;
  }

 private:
  std::int64_t stride() const { return document_mask_ ? 3 * length_ : length_; }

  const TextLm& source_;
  std::int64_t length_;
  bool document_mask_;
};

std::unique_ptr<SampleWriter> TextLm::make_writer(Phase, std::uint64_t) const {
  return std::make_unique<TextLmWriter>(*this);
}

/// Returns how many bytes of UTF-8 the range's tokens stand for. A share of a text is decoded: a store knows only the
/// bytes of its whole text.
std::int64_t count_bytes(const TokenRange& range, const tokenizer::Tokenizer& tokenizer) {
  constexpr std::int64_t kTokensAtOnce = 1 << 16;
  if (range.size() == range.store->num_tokens()) return range.store->num_bytes();
  std::int64_t num_bytes = 0;
  std::vector<std::int64_t> wide;
  for (std::int64_t begin = range.begin; begin < range.end; begin += kTokensAtOnce) {
    wide.resize(static_cast<std::size_t>(std::min(kTokensAtOnce, range.end - begin)));
    range.store->copy(begin, wide);
    const std::vector<std::int32_t> ids(wide.begin(), wide.end());
    num_bytes += static_cast<std::int64_t>(tokenizer.decode(ids, tokenizer::SpecialTokens::leave_out).size());
  }
  return num_bytes;
}

}  // namespace

Sources build(const TextLmConfig& config, const LoaderOptions& options) {
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  TokenRanges ranges = token_ranges(prepare_stores(config, *tokenizer, prepare_options(options)),
                                    {.eval_fraction = config.eval_fraction, .test_fraction = config.test_fraction});
  const std::shared_ptr<const TokenStore> store = ranges.train.store;
  // Decoding a large share takes seconds, and most ranks of most runs never ask for bytes.
  const auto later = [](auto count) { return std::async(std::launch::deferred, std::move(count)).share(); };
  const auto open = [&](const TokenRange& range, const std::shared_future<std::int64_t>& num_bytes) {
    return std::make_unique<TextLm>(range, config, tokenizer->vocab_size(), num_bytes);
  };
  std::vector<std::shared_future<std::int64_t>> taken;  // bytes of the training text's other parts
  const auto open_other = [&](const TokenRange& range) {
    const auto num_bytes = later([range, tokenizer] { return count_bytes(range, *tokenizer); });
    if (range.store == store) taken.push_back(num_bytes);
    return open(range, num_bytes);
  };
  Sources sources;
  if (ranges.eval.store) sources.eval = open_other(ranges.eval);
  if (ranges.test.store) sources.test = open_other(ranges.test);
  sources.train = open(ranges.train, later([store, taken] {
                         std::int64_t left = store->num_bytes();
                         for (const std::shared_future<std::int64_t>& part : taken) left -= part.get();
                         return std::max<std::int64_t>(left, 0);
                       }));
  return sources;
}

}  // namespace trainctl::dataset
