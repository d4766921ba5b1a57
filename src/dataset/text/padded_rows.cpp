#include "dataset/text/padded_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "dataset/collate/token_rows.h"

namespace trainctl::dataset {
namespace {

class PaddedRowSource final : public RawSource {
 public:
  PaddedRowSource(std::shared_ptr<const TokenStore> store, const PaddedRows& rows)
      : store_(std::move(store)), rows_(rows) {
    spec_.input_shape = {rows_.max_length};
    spec_.input_dtype = at::kLong;
    spec_.class_names = store_->class_names();
    spec_.num_classes = static_cast<std::int64_t>(spec_.class_names.size());
    spec_.vocab_size = rows_.vocab_size;
    spec_.targets = rows_.targets;
    for (std::int64_t row = 0; row < store_->num_documents(); ++row)
      lengths_.push_back(static_cast<std::int32_t>(store_->document_length(row)));
  }

  std::int64_t size() const override { return store_->num_documents(); }
  const SampleSpec& spec() const override { return spec_; }
  std::span<const std::int32_t> lengths() const override { return lengths_; }
  /// Returns the bytes of a sample, int64 [1 + 2 T]: its length, its ids padded to the longest permitted text, and
  /// their types.
  std::int64_t sample_bytes() const override { return (1 + 2 * width()) * kIdBytes; }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    auto* values = reinterpret_cast<std::int64_t*>(sample);
    const std::int64_t begin = store_->document_start(index);
    const auto length = static_cast<std::size_t>(store_->document_length(index));
    const std::span<std::int64_t> ids(values + 1, static_cast<std::size_t>(width()));
    const std::span<std::int64_t> types(values + 1 + width(), static_cast<std::size_t>(width()));
    values[0] = static_cast<std::int64_t>(length);
    store_->copy(begin, ids.first(length));
    std::fill(ids.begin() + static_cast<std::ptrdiff_t>(length), ids.end(), rows_.pad);
    std::fill(types.begin(), types.end(), 0);
    if (has_token_labels()) return 0;
    store_->copy_types(begin, types.first(length));
    return store_->target_of(index);
  }
  std::string fingerprint() const override { return store_->fingerprint(); }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

  void write_labels(std::int64_t index, std::span<std::int64_t> labels) const {
    const auto length = static_cast<std::size_t>(store_->document_length(index));
    store_->copy_labels(store_->document_start(index), labels.first(length));
    std::fill(labels.begin() + static_cast<std::ptrdiff_t>(length), labels.end(), kNoTarget);
  }
  bool has_token_labels() const { return rows_.targets == Targets::token_labels; }
  std::int64_t width() const { return rows_.max_length; }

 private:
  std::shared_ptr<const TokenStore> store_;
  PaddedRows rows_;
  SampleSpec spec_;
  std::vector<std::int32_t> lengths_;
};

/// A writer of rows: each is a sample, then room for the key mask and, for token labels, the targets' positions.
class PaddedRowWriter final : public SampleWriter {
 public:
  explicit PaddedRowWriter(const PaddedRowSource& source) : source_(source), width_(source.width()) {}

  std::int64_t input_bytes() const override { return stride() * kIdBytes; }
  std::int64_t target_count() const override { return source_.has_token_labels() ? width_ : 1; }
  Scratch make_scratch() const override { return {}; }
  void write(SampleKey key, Scratch&, std::byte* input, std::int64_t* target) const override {
    *target = source_.get(key.index, input);
    if (source_.has_token_labels()) source_.write_labels(key.index, {target, static_cast<std::size_t>(width_)});
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    auto* const values = static_cast<std::int64_t*>(inputs);
    std::vector<std::int64_t> lengths;
    for (std::int64_t row = 0; row < count; ++row) lengths.push_back(values[row * stride()]);
    const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
    const std::int64_t width = lengths.empty() ? 1 : *longest;
    const std::array parts = {RowPart{1, width}, RowPart{1 + width_, width}};
    const bool token_labels = source_.has_token_labels();
    pack_rows({values, count, stride()}, std::span(parts).first(token_labels ? 1 : 2));
    BatchMemory memory(inputs, release);
    Batch batch{.inputs = memory.take({count, width}, at::kLong), .targets = {}};
    if (token_labels) {
      batch.targets = wrap_labels(count, width, targets, release);
      batch.target_positions = memory.take_target_positions(batch.targets);
    } else {
      batch.token_types = memory.take({count, width}, at::kLong);
      batch.targets = wrap_targets(count, targets, release);
    }
    if (!lengths.empty() && *shortest < width) batch.key_mask = memory.take_key_mask(lengths, width);
    return batch;
  }

 private:
  /// Returns the int64 values per row. The mask is a byte per token; positions take the place of the types.
  std::int64_t stride() const { return 1 + 2 * width_ + (width_ + kIdBytes - 1) / kIdBytes; }

  at::Tensor wrap_labels(std::int64_t count, std::int64_t width, void* targets,
                         const std::function<void(void*)>& release) const {
    pack_rows({static_cast<std::int64_t*>(targets), count, width_}, std::array{RowPart{0, width}});
    return BatchMemory(targets, release).take({count, width}, at::kLong);
  }

  at::Tensor wrap_targets(std::int64_t count, void* targets, const std::function<void(void*)>& release) const {
    if (source_.spec().targets != Targets::values) return BatchMemory(targets, release).take({count}, at::kLong);
    const auto* bits = static_cast<const std::int64_t*>(targets);
    std::vector<float> numbers;
    for (std::int64_t row = 0; row < count; ++row)
      numbers.push_back(static_cast<float>(std::bit_cast<double>(bits[row])));
    std::copy(numbers.begin(), numbers.end(), static_cast<float*>(targets));
    return BatchMemory(targets, release).take({count}, at::kFloat);
  }

  const PaddedRowSource& source_;
  std::int64_t width_;
};

std::unique_ptr<SampleWriter> PaddedRowSource::make_writer(Phase, std::uint64_t) const {
  return std::make_unique<PaddedRowWriter>(*this);
}

}  // namespace

Sources padded_sources(const PreparedStores& stores, const PaddedRows& rows) {
  const auto source = [&](const PreparedStore& prepared) {
    return std::make_unique<PaddedRowSource>(prepared.store, rows);
  };
  return {.train = source(stores.train), .eval = stores.eval ? source(*stores.eval) : nullptr};
}

}  // namespace trainctl::dataset
