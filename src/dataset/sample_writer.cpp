#include "dataset/sample_writer.h"

#include <ATen/ops/from_blob.h>

#include <cstring>

#include "dataset/text/token_rows.h"
#include "runtime/random.h"

namespace trainctl {
namespace {

class ImageWriter final : public SampleWriter {
 public:
  ImageWriter(const Source& source, Transforms transforms, std::uint64_t seed)
      : source_(source),
        shape_(image_shape(source.spec())),
        transforms_(std::move(transforms)),
        key_(mix(seed, key_of("transform"))) {}

  std::int64_t input_bytes() const override { return shape_.bytes() * static_cast<std::int64_t>(sizeof(float)); }
  std::int64_t target_count() const override { return 1; }

  Scratch make_scratch() const override {
    const std::vector<std::uint8_t> image(static_cast<std::size_t>(shape_.bytes()));
    return {.pixels = {.bytes = image, .spare = image}, .tokens = {}};
  }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    *target = source_.get(key.index, reinterpret_cast<std::byte*>(scratch.pixels.bytes.data()));
    const Random random(mix(key_, static_cast<std::uint64_t>(key.epoch), static_cast<std::uint64_t>(key.index)));
    transforms_.apply(scratch.pixels, random, reinterpret_cast<float*>(input));
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    const std::int64_t sizes[] = {count, shape_.channels, shape_.height, shape_.width};
    // [B, H, W, C] in memory. With one channel that is [B, C, H, W] too, and has its strides.
    const std::int64_t plane = shape_.height * shape_.width;
    const std::int64_t strides[] = {shape_.bytes(), shape_.channels == 1 ? plane : 1, shape_.row_bytes(),
                                    shape_.channels};
    return {.inputs = at::from_blob(inputs, sizes, strides, release, at::TensorOptions(at::kFloat)),
            .targets = at::from_blob(targets, {count}, release, at::TensorOptions(at::kLong))};
  }

 private:
  const Source& source_;
  ImageShape shape_;
  Transforms transforms_;
  std::uint64_t key_;
};

class TokenWriter final : public SampleWriter {
 public:
  explicit TokenWriter(const Source& source) : source_(source), length_(source.spec().input_shape[0]) {}

  std::int64_t input_bytes() const override { return length_ * static_cast<std::int64_t>(sizeof(std::int64_t)); }
  std::int64_t target_count() const override { return length_; }
  Scratch make_scratch() const override {
    return {.pixels = {}, .tokens = std::vector<std::int64_t>(static_cast<std::size_t>(length_ + 1))};
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
  const Source& source_;
  std::int64_t length_;
};

class MaskedTokenWriter final : public SampleWriter {
 public:
  MaskedTokenWriter(const Source& source, double probability, std::uint64_t seed)
      : source_(source),
        length_(source.spec().input_shape[0]),
        probability_(probability),
        key_(mix(seed, key_of("masks"))) {}

  std::int64_t input_bytes() const override { return length_ * static_cast<std::int64_t>(sizeof(std::int64_t)); }
  std::int64_t target_count() const override { return length_; }
  Scratch make_scratch() const override {
    return {.pixels = {}, .tokens = std::vector<std::int64_t>(static_cast<std::size_t>(length_ + 1))};
  }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    source_.get(key.index, reinterpret_cast<std::byte*>(scratch.tokens.data()));
    Random random(mix(key_, static_cast<std::uint64_t>(key.epoch), static_cast<std::uint64_t>(key.index)));
    for (std::size_t t = 0; t < static_cast<std::size_t>(length_); ++t) {
      const bool chosen = random.uniform() < probability_;
      target[t] = chosen ? scratch.tokens[t] : -100;
      if (chosen) scratch.tokens[t] = 0;
    }
    std::memcpy(input, scratch.tokens.data(), static_cast<std::size_t>(input_bytes()));
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    Batch batch{.inputs = rows_view(inputs, count, length_, length_, release),
                .targets = rows_view(targets, count, length_, length_, release)};
    batch.target_positions = positions_of_targets(batch.targets);
    return batch;
  }

 private:
  const Source& source_;
  std::int64_t length_;
  double probability_;
  std::uint64_t key_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_masked_token_writer(const Source& source, double probability, std::uint64_t seed) {
  return std::make_unique<MaskedTokenWriter>(source, probability, seed);
}

std::unique_ptr<SampleWriter> Source::make_writer(Phase, std::uint64_t) const {
  return nullptr;
}

std::unique_ptr<SampleWriter> make_image_writer(const Source& source, Transforms transforms, std::uint64_t seed) {
  return std::make_unique<ImageWriter>(source, std::move(transforms), seed);
}

std::unique_ptr<SampleWriter> make_token_writer(const Source& source) {
  return std::make_unique<TokenWriter>(source);
}

ImageShape image_shape(const SampleSpec& spec) {
  return {.height = spec.input_shape[1], .width = spec.input_shape[2], .channels = spec.input_shape[0]};
}

}  // namespace trainctl
