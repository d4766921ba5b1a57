// Images into batches: [B, H, W, C] floats or bytes in memory.
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "dataset/collate/image_pixel_source.h"
#include "dataset/collate/sample_writer.h"
#include "dataset/image/codec/encoded_source.h"

namespace trainctl::dataset {
namespace {

class ImageWriter : public SampleWriter {
 public:
  ImageWriter(Transforms transforms, std::uint64_t seed)
      : transforms_(std::move(transforms)),
        shape_(transforms_.output()),
        key_(runtime::mix(seed, runtime::key_of("transform"))) {}

  SampleSpec spec(const SampleSpec& source) const override {
    SampleSpec spec = source;
    spec.input_shape = {shape_.channels, shape_.height, shape_.width};
    if (makes_bytes()) spec.to_normalize = transforms_.scaling();
    return spec;
  }
  std::int64_t input_bytes() const override {
    return shape_.bytes() * static_cast<std::int64_t>(makes_bytes() ? 1 : sizeof(float));
  }
  std::int64_t target_count() const override { return 1; }
  Scratch make_scratch() const override { return {}; }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    const std::int64_t sizes[] = {count, shape_.channels, shape_.height, shape_.width};
    // [B, H, W, C] in memory. With one channel that is [B, C, H, W] too, and has its strides.
    const std::int64_t plane = shape_.height * shape_.width;
    const std::int64_t strides[] = {shape_.bytes(), shape_.channels == 1 ? plane : 1, shape_.row_bytes(),
                                    shape_.channels};
    const at::TensorOptions options(makes_bytes() ? at::kByte : at::kFloat);
    return {.inputs = at::from_blob(inputs, sizes, strides, release, options),
            .targets = at::from_blob(targets, {count}, release, at::TensorOptions(at::kLong))};
  }

 protected:
  runtime::Random random_of(SampleKey key) const {
    return runtime::Random(
        runtime::mix(key_, static_cast<std::uint64_t>(key.epoch), static_cast<std::uint64_t>(key.index)));
  }
  const Transforms& transforms() const { return transforms_; }
  const ImageShape& shape() const { return shape_; }

 private:
  bool makes_bytes() const { return transforms_.output_kind() == PixelOutput::bytes; }

  Transforms transforms_;
  ImageShape shape_;
  std::uint64_t key_;
};

/// A writer of images of one size, which their source has as bytes.
class RawImageWriter final : public ImageWriter {
 public:
  RawImageWriter(const RawSource& source, Transforms transforms, std::uint64_t seed)
      : ImageWriter(std::move(transforms), seed), source_(source), shape_(image_shape(source.spec())) {}

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    Image& image = scratch.image.image;
    image.resize(shape_.height, shape_.width, shape_.channels);
    *target = source_.get(key.index, reinterpret_cast<std::byte*>(image.bytes.data()));
    transforms().apply(scratch.image, random_of(key), input);
  }

 private:
  const RawSource& source_;
  ImageShape shape_;
};

class EncodedImageWriter final : public ImageWriter {
 public:
  EncodedImageWriter(const EncodedImageSource& source, Transforms transforms, std::uint64_t seed,
                     std::shared_ptr<CachedSamples> cache)
      : ImageWriter(std::move(transforms), seed),
        source_(source),
        cache_(std::move(cache)),
        has_label_sets_(source.spec().targets == Targets::label_sets) {}

  std::int64_t target_count() const override { return has_label_sets_ ? source_.spec().num_classes : 1; }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    ImagePixelSource supply({.source = source_, .index = key.index, .cache = cache_.get()}, scratch);
    transforms().decode_and_apply(supply, scratch.image, random_of(key), input);
    if (has_label_sets_)
      write_label_set(key.index, target);
    else
      *target = supply.label();
  }
  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    Batch batch = ImageWriter::wrap(count, inputs, targets, release);
    if (has_label_sets_)
      batch.targets = at::from_blob(targets, {count, target_count()}, release, at::TensorOptions(at::kLong));
    return batch;
  }
  void will_need(SampleKey key) const override {
    if (!cache_ || !cache_->find(key.index, 0)) source_.will_need(key.index);
  }

 private:
  void write_label_set(std::int64_t index, std::int64_t* target) const {
    std::fill_n(target, target_count(), 0);
    for (const std::int64_t label : source_.label_set(index)) target[label] = 1;
  }

  const EncodedImageSource& source_;
  std::shared_ptr<CachedSamples> cache_;
  bool has_label_sets_;
};

/// A writer of images and of the class of each of their pixels.
class MaskWriter final : public ImageWriter {
 public:
  MaskWriter(const EncodedImageSource& source, Transforms transforms, std::uint64_t seed,
             std::shared_ptr<CachedSamples> cache)
      : ImageWriter(std::move(transforms), seed), source_(source), cache_(std::move(cache)) {}

  std::int64_t target_count() const override { return shape().height * shape().width; }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    ImagePixelSource supply({.source = source_, .index = key.index, .cache = cache_.get()}, scratch);
    transforms().decode_and_apply(supply, scratch.image, random_of(key), input);
    StageClock clock;
    const ImageSize size = supply.known_size();
    const ClassMask mask = source_.class_mask(key.index, size, scratch.image.file);
    clock.lap(scratch.times.decode);
    const PixelOrigins origins = transforms().origins(size, random_of(key));
    for (const std::int64_t row : origins.rows)
      for (const std::int64_t column : origins.columns) *target++ = class_at(mask, row, column);
  }
  void will_need(SampleKey key) const override { source_.will_need(key.index); }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    Batch batch = ImageWriter::wrap(count, inputs, targets, release);
    const at::TensorOptions options(at::kLong);
    batch.targets = at::from_blob(targets, {count, shape().height, shape().width}, release, options);
    return batch;
  }

 private:
  static std::int64_t class_at(const ClassMask& mask, std::int64_t row, std::int64_t column) {
    constexpr std::int64_t kNoTarget = -100;
    if (row < 0 || column < 0) return kNoTarget;
    const std::uint8_t found = mask.at(row, column);
    return found == ClassMask::kNoClass ? kNoTarget : std::int64_t{found};
  }

  const EncodedImageSource& source_;
  std::shared_ptr<CachedSamples> cache_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_mask_writer(const EncodedImageSource& source, Transforms transforms,
                                               std::uint64_t seed, std::shared_ptr<CachedSamples> cache) {
  return std::make_unique<MaskWriter>(source, std::move(transforms), seed, std::move(cache));
}

std::unique_ptr<SampleWriter> make_image_writer(const RawSource& source, Transforms transforms, std::uint64_t seed) {
  return std::make_unique<RawImageWriter>(source, std::move(transforms), seed);
}

std::unique_ptr<SampleWriter> make_image_writer(const EncodedImageSource& source, Transforms transforms,
                                                std::uint64_t seed, std::shared_ptr<CachedSamples> cache) {
  return std::make_unique<EncodedImageWriter>(source, std::move(transforms), seed, std::move(cache));
}

ImageShape image_shape(const SampleSpec& spec) {
  return {.height = spec.input_shape[1], .width = spec.input_shape[2], .channels = spec.input_shape[0]};
}

}  // namespace trainctl::dataset
