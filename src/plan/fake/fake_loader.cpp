#include "plan/fake/fake_loader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/memory/memory_tracker.h"
#include "runtime/fake_tensor.h"

namespace trainctl::plan {
namespace {

/// The memory of a batch in the loader, which its tensors share.
class Row {
 public:
  Row(std::int64_t bytes, at::ScalarType type, MemoryTracker& log)
      : memory_(at::empty({bytes / static_cast<std::int64_t>(at::elementSize(type))}, at::TensorOptions(type))) {
    log.assign(memory_, Purpose::batches);
  }
  at::Tensor take(std::vector<std::int64_t> shape) {
    std::int64_t size = 1;
    for (const std::int64_t dim : shape) size *= dim;
    const at::Tensor piece = memory_.narrow(0, next_, size).view(shape);
    next_ += size;
    return piece;
  }

 private:
  at::Tensor memory_;
  std::int64_t next_ = 0;
};

constexpr std::int64_t kManySamples = std::int64_t{1} << 32;

class FakeLoader final : public dataset::Loader {
 public:
  FakeLoader(const dataset::BatchSpec& outline, const dataset::DatasetConfig& config, const dataset::Share& share,
             MemoryTracker& log)
      : outline_(outline),
        batch_size_(outline.num_samples > 0 ? std::min(config.samples_per_batch(), outline.num_samples)
                                            : config.samples_per_batch()),
        share_(share),
        log_(log) {
    for (std::int64_t i = 0; i < outline.batches_ahead; ++i) ahead_.push_back(make());
  }

  std::optional<dataset::Batch> next() override {
    dataset::Batch batch = make();
    batch.first_sample = position_.sample;
    position_.sample += batch_size_ * share_.world;
    return batch;
  }
  void seek(dataset::Position position) override { position_ = position; }
  dataset::Position position() const override { return position_; }
  /// Returns the number of samples. If it is unknown: more than a run reads, but so few that any number of epochs can
  /// be counted.
  std::int64_t num_samples() const override { return outline_.num_samples > 0 ? outline_.num_samples : kManySamples; }
  std::int64_t batches_per_epoch() const override {
    return std::max<std::int64_t>(1, num_samples() / (batch_size_ * share_.world));
  }
  const dataset::SampleSpec& spec() const override { return outline_.spec; }
  double last_wait_ms() const override { return 0; }
  dataset::LoaderStats take_stats() override { return {}; }

 private:
  dataset::Batch make() {
    const dataset::SampleSpec& spec = outline_.spec;
    Row targets(batch_size_ * outline_.target_count * static_cast<std::int64_t>(sizeof(std::int64_t)), at::kLong, log_);
    return spec.is_image() ? images(targets) : spec.input_dtype == at::kLong ? texts(targets) : rows(targets);
  }

  dataset::Batch images(Row& targets) {
    const std::vector<std::int64_t>& shape = outline_.spec.input_shape;
    Row memory(batch_size_ * outline_.input_bytes, outline_.spec.to_normalize ? at::kByte : at::kFloat, log_);
    at::Tensor pixels = memory.take({batch_size_, shape[1], shape[2], shape[0]}).permute({0, 3, 1, 2});
    std::vector<std::int64_t> target_shape{batch_size_};
    if (outline_.spec.targets == dataset::Targets::label_sets) target_shape.push_back(outline_.spec.num_classes);
    if (outline_.spec.targets == dataset::Targets::class_masks)
      target_shape.insert(target_shape.end(), {shape[1], shape[2]});
    return {.inputs = std::move(pixels), .targets = targets.take(target_shape)};
  }

  dataset::Batch rows(Row& targets) {
    Row memory(batch_size_ * outline_.input_bytes, at::kFloat, log_);
    at::Tensor labels = targets.take({batch_size_});
    if (outline_.spec.targets == dataset::Targets::values) labels = labels.to(at::kFloat);
    return {.inputs = memory.take({batch_size_, outline_.spec.input_shape[0]}), .targets = labels};
  }

  dataset::Batch texts(Row& targets) {
    const std::int64_t most = outline_.spec.input_shape[0];
    const std::int64_t length = outline_.text_length > 0 ? std::min(outline_.text_length, most) : most;
    Row memory(batch_size_ * outline_.input_bytes, at::kLong, log_);
    dataset::Batch batch{.inputs = memory.take({batch_size_, length}), .targets = {}};
    const bool has_token_targets = outline_.target_count > 1;
    const std::int64_t target_length = outline_.spec.target_length > 0 ? outline_.spec.target_length : length;
    batch.targets = has_token_targets ? targets.take({batch_size_, target_length}) : targets.take({batch_size_});
    if (outline_.spec.target_length > 0) batch.decoder_inputs = memory.take({batch_size_, target_length});
    if (outline_.spec.targets == dataset::Targets::values) batch.targets = batch.targets.to(at::kFloat);
    if (outline_.has_token_types) batch.token_types = memory.take({batch_size_, length});
    if (outline_.has_documents) batch.documents = one_document_each(length);
    const bool asks_some =
        outline_.target_share < 1 || outline_.has_documents || (outline_.has_padding && has_token_targets);
    if (asks_some) batch.target_positions = memory.take({num_targets(target_length)});
    if (outline_.has_padding) batch.key_mask = padding(length);
    return batch;
  }

  std::int64_t num_targets(std::int64_t length) const {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(outline_.target_share * static_cast<double>(batch_size_ * length)));
  }

  /// Returns a mask with real values, on which later operators may depend. All rows are full but one.
  at::Tensor padding(std::int64_t length) const {
    const runtime::RealScope real;
    at::Tensor mask = at::ones({batch_size_, length}, at::TensorOptions(at::kBool));
    if (length > 1) mask.select(0, 0).narrow(0, length - 1, 1).zero_();
    return mask;
  }

  at::Tensor one_document_each(std::int64_t length) const {
    const runtime::RealScope real;
    return at::zeros({batch_size_, length}, at::TensorOptions(at::kLong));
  }

  const dataset::BatchSpec outline_;
  std::int64_t batch_size_;
  dataset::Share share_;
  MemoryTracker& log_;
  std::vector<dataset::Batch> ahead_;
  dataset::Position position_;
};

}  // namespace

std::unique_ptr<dataset::Loader> fake_loader(const dataset::BatchSpec& outline, const dataset::DatasetConfig& config,
                                             const dataset::Share& share, MemoryTracker& log) {
  return std::make_unique<FakeLoader>(outline, config, share, log);
}

}  // namespace trainctl::plan
