#include "dataset/text/seq2seq_rows.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "core/file.h"
#include "dataset/collate/token_rows.h"

namespace trainctl::dataset {
namespace {

/// A sample is int64 [2 + S + T]: the lengths of source and target, the source's ids, the decoder's inputs. Both are
/// padded to the longest that is permitted.
class Seq2SeqSource final : public RawSource {
 public:
  Seq2SeqSource(std::shared_ptr<const TokenStore> store, const Seq2SeqRows& rows, std::vector<std::int64_t> chosen)
      : store_(std::move(store)), rows_(rows), chosen_(std::move(chosen)) {
    spec_.input_shape = {rows_.max_source_length};
    spec_.target_length = rows_.max_target_length;
    spec_.input_dtype = at::kLong;
    spec_.vocab_size = rows_.vocab_size;
    spec_.targets = Targets::target_tokens;
    for (std::int64_t i = 0; i < size(); ++i) {
      const Pair pair = pair_of(i);
      lengths_.push_back(static_cast<std::int32_t>(pair.source_length + pair.target_length));
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(chosen_.size()); }
  const SampleSpec& spec() const override { return spec_; }
  std::span<const std::int32_t> lengths() const override { return lengths_; }
  std::int64_t sample_bytes() const override {
    return (2 + rows_.max_source_length + rows_.max_target_length) * kIdBytes;
  }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    auto* const values = reinterpret_cast<std::int64_t*>(sample);
    const Pair pair = pair_of(index);
    values[0] = pair.source_length;
    values[1] = pair.target_length;
    const std::span<std::int64_t> source(values + 2, static_cast<std::size_t>(rows_.max_source_length));
    const std::span<std::int64_t> inputs(source.end(), static_cast<std::size_t>(rows_.max_target_length));
    pair.stored.copy_source(source.first(static_cast<std::size_t>(pair.source_length)), rows_.truncation_side);
    std::fill(source.begin() + pair.source_length, source.end(), rows_.pad);
    // Each input's successor is a target: the last target is nobody's input.
    const std::span<std::int64_t> successors = inputs.first(static_cast<std::size_t>(pair.target_length));
    pair.stored.copy_target(successors, rows_.truncation_side);
    std::rotate(successors.begin(), successors.end() - 1, successors.end());
    inputs[0] = rows_.start;
    std::fill(inputs.begin() + pair.target_length, inputs.end(), rows_.pad);
    return 0;
  }
  std::string fingerprint() const override {
    const std::string cut =
        std::to_string(rows_.max_source_length) + " " + std::to_string(rows_.max_target_length) + " ";
    if (size() == store_->num_documents()) return core::checksum(cut + store_->fingerprint());
    return core::checksum(cut + store_->fingerprint() + core::checksum(std::as_bytes(std::span(chosen_))));
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

  void write_targets(std::int64_t index, std::span<std::int64_t> targets) const {
    const Pair pair = pair_of(index);
    pair.stored.copy_target(targets.first(static_cast<std::size_t>(pair.target_length)), rows_.truncation_side);
    std::fill(targets.begin() + pair.target_length, targets.end(), kNoTarget);
  }
  const Seq2SeqRows& rows() const { return rows_; }

 private:
  /// A pair, and how many tokens of its texts are used.
  struct Pair {
    StoredPair stored;
    std::int64_t source_length;
    std::int64_t target_length;
  };
  Pair pair_of(std::int64_t index) const {
    const StoredPair stored(*store_, chosen_[static_cast<std::size_t>(index)]);
    return {.stored = stored,
            .source_length = std::min(stored.source_length(), rows_.max_source_length),
            .target_length = std::min(stored.target_length(), rows_.max_target_length)};
  }

  std::shared_ptr<const TokenStore> store_;
  Seq2SeqRows rows_;
  std::vector<std::int64_t> chosen_;
  SampleSpec spec_;
  std::vector<std::int32_t> lengths_;
};

/// A writer of pairs: each is a sample, then room for the targets' positions and the key mask.
class Seq2SeqWriter final : public SampleWriter {
 public:
  explicit Seq2SeqWriter(const Seq2SeqSource& source)
      : source_(source),
        source_width_(source.rows().max_source_length),
        target_width_(source.rows().max_target_length) {}

  std::int64_t input_bytes() const override { return stride() * kIdBytes; }
  std::int64_t target_count() const override { return target_width_; }
  Scratch make_scratch() const override { return {}; }
  void write(SampleKey key, Scratch&, std::byte* input, std::int64_t* target) const override {
    source_.get(key.index, input);
    source_.write_targets(key.index, {target, static_cast<std::size_t>(target_width_)});
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    auto* const values = static_cast<std::int64_t*>(inputs);
    std::vector<std::int64_t> source_lengths;
    std::int64_t target_width = 1;
    for (std::int64_t row = 0; row < count; ++row) {
      source_lengths.push_back(values[row * stride()]);
      target_width = std::max(target_width, values[row * stride() + 1]);
    }
    const auto [shortest, longest] = std::minmax_element(source_lengths.begin(), source_lengths.end());
    const std::int64_t source_width = source_lengths.empty() ? 1 : *longest;
    pack_rows({values, count, stride()},
              std::array{RowPart{2, source_width}, RowPart{2 + source_width_, target_width}});
    pack_rows({static_cast<std::int64_t*>(targets), count, target_width_}, std::array{RowPart{0, target_width}});
    BatchMemory memory(inputs, release);
    Batch batch{.inputs = memory.take({count, source_width}, at::kLong),
                .targets = BatchMemory(targets, release).take({count, target_width}, at::kLong)};
    batch.decoder_inputs = memory.take({count, target_width}, at::kLong);
    batch.target_positions = memory.take_target_positions(batch.targets);
    if (!source_lengths.empty() && *shortest < source_width)
      batch.key_mask = memory.take_key_mask(source_lengths, source_width);
    return batch;
  }

 private:
  /// Returns the int64 values per row. The mask is a byte per token.
  std::int64_t stride() const {
    return 2 + source_width_ + 2 * target_width_ + (source_width_ + kIdBytes - 1) / kIdBytes;
  }

  const Seq2SeqSource& source_;
  std::int64_t source_width_;
  std::int64_t target_width_;
};

std::unique_ptr<SampleWriter> Seq2SeqSource::make_writer(Phase, std::uint64_t) const {
  return std::make_unique<Seq2SeqWriter>(*this);
}

std::vector<std::int64_t> all_pairs(const TokenStore& store) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(store.num_documents()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

DividedSamples divided_pairs(const TokenStore& store, const Split& split) {
  std::vector<std::uint64_t> hashes;
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < store.num_documents(); ++row) {
    ids.resize(static_cast<std::size_t>(store.document_length(row)));
    store.copy(store.document_start(row), ids);
    hashes.push_back(key_hash({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int64_t)}));
  }
  return divide(hashes, {}, split, "pair");
}

}  // namespace

Sources seq2seq_sources(const PreparedStores& stores, const Seq2SeqRows& rows) {
  const auto source = [&](const PreparedStore& prepared, std::vector<std::int64_t> chosen) -> std::unique_ptr<Source> {
    if (chosen.empty()) return nullptr;
    return std::make_unique<Seq2SeqSource>(prepared.store, rows, std::move(chosen));
  };
  Sources sources;
  if (rows.split.divides()) {
    DividedSamples parts = divided_pairs(*stores.train.store, rows.split);
    sources = {.train = source(stores.train, std::move(parts.train)),
               .eval = source(stores.train, std::move(parts.eval)),
               .test = source(stores.train, std::move(parts.test))};
  } else {
    sources.train = source(stores.train, all_pairs(*stores.train.store));
  }
  if (stores.eval) sources.eval = source(*stores.eval, all_pairs(*stores.eval->store));
  if (stores.test) sources.test = source(*stores.test, all_pairs(*stores.test->store));
  return sources;
}

}  // namespace trainctl::dataset
