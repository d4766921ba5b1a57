#include "dataset/text/padded_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "dataset/collate/token_rows.h"

namespace trainctl::dataset {
namespace {

class PaddedRowSource final : public RawSource {
 public:
  /// `chosen`: the numbers of the rows that are samples. `labels`: what the training rows' values say.
  PaddedRowSource(std::shared_ptr<const TokenStore> store, const PaddedRows& rows, std::vector<std::int64_t> chosen,
                  Standardization labels)
      : store_(std::move(store)), rows_(rows), chosen_(std::move(chosen)) {
    spec_.labels = labels;
    spec_.input_shape = {rows_.max_length};
    spec_.input_dtype = at::kLong;
    spec_.class_names = store_->class_names();
    spec_.num_classes = static_cast<std::int64_t>(spec_.class_names.size());
    spec_.vocab_size = rows_.vocab_size;
    spec_.targets = rows_.targets;
    for (const std::int64_t row : chosen_) lengths_.push_back(static_cast<std::int32_t>(store_->document_length(row)));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(chosen_.size()); }
  const SampleSpec& spec() const override { return spec_; }
  std::span<const std::int32_t> lengths() const override { return lengths_; }
  /// Returns the bytes of a sample, int64 [1 + 2 T]: its length, its ids padded to the longest permitted text, and
  /// their types.
  std::int64_t sample_bytes() const override { return (1 + 2 * width()) * kIdBytes; }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    auto* values = reinterpret_cast<std::int64_t*>(sample);
    const std::int64_t row = row_of(index);
    const std::int64_t begin = store_->document_start(row);
    const auto length = static_cast<std::size_t>(store_->document_length(row));
    const std::span<std::int64_t> ids(values + 1, static_cast<std::size_t>(width()));
    const std::span<std::int64_t> types(values + 1 + width(), static_cast<std::size_t>(width()));
    values[0] = static_cast<std::int64_t>(length);
    store_->copy(begin, ids.first(length));
    std::fill(ids.begin() + static_cast<std::ptrdiff_t>(length), ids.end(), rows_.pad);
    std::fill(types.begin(), types.end(), 0);
    if (has_token_labels()) return 0;
    store_->copy_types(begin, types.first(length));
    const std::int64_t target = store_->target_of(row);
    if (rows_.targets != Targets::values) return target;
    return std::bit_cast<std::int64_t>(spec_.labels.standardized(std::bit_cast<double>(target)));
  }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> all;
    if (rows_.targets != Targets::labels) return all;
    for (const std::int64_t row : chosen_) all.push_back(store_->target_of(row));
    return all;
  }
  std::string fingerprint() const override {
    if (size() == store_->num_documents()) return store_->fingerprint();
    return core::checksum(store_->fingerprint() + core::checksum(std::as_bytes(std::span(chosen_))));
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

  void write_labels(std::int64_t index, std::span<std::int64_t> labels) const {
    const std::int64_t row = row_of(index);
    const auto length = static_cast<std::size_t>(store_->document_length(row));
    store_->copy_labels(store_->document_start(row), labels.first(length));
    std::fill(labels.begin() + static_cast<std::ptrdiff_t>(length), labels.end(), kNoTarget);
  }
  bool has_token_labels() const { return rows_.targets == Targets::token_labels; }
  std::int64_t width() const { return rows_.max_length; }

 private:
  std::int64_t row_of(std::int64_t index) const { return chosen_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const TokenStore> store_;
  PaddedRows rows_;
  std::vector<std::int64_t> chosen_;
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

std::vector<std::int64_t> all_rows(const TokenStore& store) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(store.num_documents()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

DividedSamples divided_store(const TokenStore& store, const PaddedRows& rows) {
  std::vector<std::uint64_t> hashes;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < store.num_documents(); ++row) {
    ids.resize(static_cast<std::size_t>(store.document_length(row)));
    store.copy(store.document_start(row), ids);
    hashes.push_back(key_hash({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int64_t)}));
    if (rows.targets == Targets::labels) labels.push_back(store.target_of(row));
  }
  return divide(hashes, labels, rows.split, "text");
}

/// Returns what the training rows' labels are standardized with.
Standardization label_standardization(const TokenStore& store, const PaddedRows& rows,
                                      const std::vector<std::int64_t>& chosen) {
  if (rows.known_labels) return *rows.known_labels;
  if (rows.label_scaling == LabelScaling::none) return kAsTheyAre;
  std::vector<double> labels;
  for (const std::int64_t row : chosen) labels.push_back(std::bit_cast<double>(store.target_of(row)));
  return standardization_of(labels);
}

}  // namespace

Sources padded_sources(const PreparedStores& stores, const PaddedRows& rows) {
  DividedSamples parts;
  if (rows.split.divides())
    parts = divided_store(*stores.train.store, rows);
  else
    parts.train = all_rows(*stores.train.store);
  const Standardization labels = label_standardization(*stores.train.store, rows, parts.train);
  const auto source = [&](const PreparedStore& prepared, std::vector<std::int64_t> chosen) -> std::unique_ptr<Source> {
    if (chosen.empty()) return nullptr;
    return std::make_unique<PaddedRowSource>(prepared.store, rows, std::move(chosen), labels);
  };
  Sources sources{.train = source(stores.train, std::move(parts.train)),
                  .eval = source(stores.train, std::move(parts.eval)),
                  .test = source(stores.train, std::move(parts.test))};
  if (stores.eval) sources.eval = source(*stores.eval, all_rows(*stores.eval->store));
  if (stores.test) sources.test = source(*stores.test, all_rows(*stores.test->store));
  return sources;
}

}  // namespace trainctl::dataset
