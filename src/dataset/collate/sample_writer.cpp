#include "dataset/collate/sample_writer.h"

#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>

#include "dataset/collate/token_rows.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

class TokenWriter final : public SampleWriter {
 public:
  explicit TokenWriter(const RawSource& source) : source_(source), length_(source.spec().input_shape[0]) {}

  std::int64_t input_bytes() const override { return length_ * static_cast<std::int64_t>(sizeof(std::int64_t)); }
  std::int64_t target_count() const override { return length_; }
  Scratch make_scratch() const override {
    return {.tokens = std::vector<std::int64_t>(static_cast<std::size_t>(length_ + 1))};
  }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    source_.get(key.index, reinterpret_cast<std::byte*>(scratch.tokens.data()));
    const auto bytes = static_cast<std::size_t>(input_bytes());
    std::memcpy(input, scratch.tokens.data(), bytes);
    std::memcpy(target, scratch.tokens.data() + 1, bytes);
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    const at::TensorOptions options(at::kLong);
    return {.inputs = at::from_blob(inputs, {count, length_}, release, options),
            .targets = at::from_blob(targets, {count, length_}, release, options)};
  }

 private:
  const RawSource& source_;
  std::int64_t length_;
};

class MaskedTokenWriter final : public SampleWriter {
 public:
  MaskedTokenWriter(const RawSource& source, double probability, Phase phase, std::uint64_t seed)
      : source_(source),
        length_(source.spec().input_shape[0]),
        probability_(probability),
        phase_(phase),
        key_(runtime::mix(seed, runtime::key_of("masks"))) {}

  /// Returns the bytes of the ids, and of the targets' positions after them.
  std::int64_t input_bytes() const override { return 2 * id_bytes(); }
  std::int64_t target_count() const override { return length_; }
  Scratch make_scratch() const override {
    return {.tokens = std::vector<std::int64_t>(static_cast<std::size_t>(length_ + 1))};
  }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    source_.get(key.index, reinterpret_cast<std::byte*>(scratch.tokens.data()));
    // Evaluation asks for the same tokens each time.
    const std::uint64_t epoch = phase_ == Phase::training ? static_cast<std::uint64_t>(key.epoch) : ~std::uint64_t{0};
    runtime::Random random(runtime::mix(key_, epoch, static_cast<std::uint64_t>(key.index)));
    for (std::size_t t = 0; t < static_cast<std::size_t>(length_); ++t) {
      const bool chosen = random.uniform() < probability_;
      target[t] = chosen ? scratch.tokens[t] : -100;
      if (chosen) scratch.tokens[t] = 0;
    }
    std::memcpy(input, scratch.tokens.data(), static_cast<std::size_t>(id_bytes()));
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    pack_rows({static_cast<std::int64_t*>(inputs), count, 2 * length_}, std::array{RowPart{0, length_}});
    BatchMemory memory(inputs, release);
    Batch batch{.inputs = memory.take({count, length_}, at::kLong),
                .targets = BatchMemory(targets, release).take({count, length_}, at::kLong)};
    batch.target_positions = memory.take_target_positions(batch.targets);
    return batch;
  }

 private:
  std::int64_t id_bytes() const { return length_ * static_cast<std::int64_t>(sizeof(std::int64_t)); }

  const RawSource& source_;
  std::int64_t length_;
  double probability_;
  Phase phase_;
  std::uint64_t key_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_masked_token_writer(const RawSource& source, double probability, Phase phase,
                                                       std::uint64_t seed) {
  return std::make_unique<MaskedTokenWriter>(source, probability, phase, seed);
}

std::unique_ptr<SampleWriter> Source::make_writer(Phase, std::uint64_t) const {
  return nullptr;
}

std::unique_ptr<Sampler> Source::make_order(Shuffling, std::uint64_t) const {
  return nullptr;
}

std::unique_ptr<SampleWriter> make_token_writer(const RawSource& source) {
  return std::make_unique<TokenWriter>(source);
}

}  // namespace trainctl::dataset
