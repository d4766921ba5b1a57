#include "dataset/image/transform/crop_resize.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trainctl::dataset {
namespace {

class RandomResizedCrop final : public Framing {
 public:
  explicit RandomResizedCrop(const RandomResizedCropConfig& config) : config_(config) {}

  bool extend(Frame& frame, runtime::Random& random) const override {
    if (frame.is_resampled || frame.is_padded()) return false;
    const Region crop = draw_crop(config_, {frame.part.height, frame.part.width}, random);
    frame.crop_and_resample(crop, {config_.size, config_.width.value_or(config_.size)});
    return true;
  }

 private:
  RandomResizedCropConfig config_;
};

class Resize final : public Framing {
 public:
  explicit Resize(const ResizeConfig& config) : config_(config) {}

  bool extend(Frame& frame, runtime::Random&) const override {
    if (frame.is_resampled || frame.is_padded()) return false;
    const ImageSize now{frame.part.height, frame.part.width};
    frame.crop_and_resample({.height = now.height, .width = now.width}, resized(config_, now));
    return true;
  }

 private:
  ResizeConfig config_;
};

class CenterCrop final : public Framing {
 public:
  explicit CenterCrop(const CenterCropConfig& config) : size_{config.size, config.width.value_or(config.size)} {}

  bool extend(Frame& frame, runtime::Random&) const override {
    const bool grows = size_.height > frame.part.height || size_.width > frame.part.width;
    if (grows && frame.hides_pixels()) return false;
    frame.part = {.top = frame.part.top + offset(frame.part.height, size_.height),
                  .left = frame.part.left + offset(frame.part.width, size_.width),
                  .height = size_.height,
                  .width = size_.width};
    return true;
  }

 private:
  /// Returns the crop's offset as torchvision does: half of the excess, rounded to even. If pixels are missing, the
  /// smaller half is first.
  static std::int64_t offset(std::int64_t have, std::int64_t want) {
    if (want > have) return -((want - have) / 2);
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(have - want) / 2));
  }

  ImageSize size_;
};

class RandomCrop final : public Framing {
 public:
  explicit RandomCrop(std::int64_t padding) : padding_(padding) {}

  bool extend(Frame& frame, runtime::Random& random) const override {
    if (padding_ > 0 && frame.hides_pixels()) return false;
    frame.part.top += random.below(2 * padding_ + 1) - padding_;
    frame.part.left += random.below(2 * padding_ + 1) - padding_;
    return true;
  }

 private:
  std::int64_t padding_;
};

/// Rounds as Python's round() does: halves go to the even number.
std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

/// Returns the largest crop in the middle with a permitted ratio, for an image in which ten tries found none.
Region middle_crop(const RandomResizedCropConfig& config, ImageSize image) {
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  ImageSize crop = image;
  if (ratio < config.ratio[0]) crop.height = rounded(static_cast<double>(crop.width) / config.ratio[0]);
  if (ratio > config.ratio[1]) crop.width = rounded(static_cast<double>(crop.height) * config.ratio[1]);
  // An image of one row may leave no pixel.
  crop = {std::max<std::int64_t>(1, crop.height), std::max<std::int64_t>(1, crop.width)};
  return {(image.height - crop.height) / 2, (image.width - crop.width) / 2, crop.height, crop.width};
}

}  // namespace

Frame::Frame(ImageSize image)
    : region{.height = image.height, .width = image.width},
      size(image),
      part{.height = image.height, .width = image.width} {}

bool Frame::hides_pixels() const {
  return part.top > 0 || part.left > 0 || part.top + part.height < size.height || part.left + part.width < size.width;
}

bool Frame::is_padded() const {
  return part.top < 0 || part.left < 0 || part.top + part.height > size.height || part.left + part.width > size.width;
}

void Frame::crop_and_resample(const Region& crop, ImageSize to) {
  core::ensure(!is_resampled && !is_padded(), "a frame is resampled once");
  region = {region.top + part.top + crop.top, region.left + part.left + crop.left, crop.height, crop.width};
  size = to;
  part = {.height = to.height, .width = to.width};
  is_resampled = to != ImageSize{region.height, region.width};
}

Region draw_crop(const RandomResizedCropConfig& config, ImageSize image, runtime::Random& random) {
  constexpr int kTries = 10;
  const double area = static_cast<double>(image.height) * static_cast<double>(image.width);
  const double least = std::log(config.ratio[0]);
  const double most = std::log(config.ratio[1]);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double target = area * random.uniform(config.scale[0], config.scale[1]);
    const double ratio = std::exp(random.uniform(least, most));
    const std::int64_t width = rounded(std::sqrt(target * ratio));
    const std::int64_t height = rounded(std::sqrt(target / ratio));
    if (width <= 0 || width > image.width || height <= 0 || height > image.height) continue;
    const std::int64_t top = random.below(image.height - height + 1);
    const std::int64_t left = random.below(image.width - width + 1);
    return {top, left, height, width};
  }
  return middle_crop(config, image);
}

ImageSize resized(const ResizeConfig& config, ImageSize image) {
  if (config.width) return {config.size, *config.width};
  const auto part = [](std::int64_t size, std::int64_t numerator, std::int64_t denominator) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(size * numerator) / static_cast<double>(denominator)));
  };
  const std::int64_t shorter = std::min(image.height, image.width);
  const std::int64_t longer = std::max(image.height, image.width);
  std::int64_t new_short = config.size;
  std::int64_t new_long = part(config.size, longer, shorter);
  if (config.max_size && new_long > *config.max_size) {
    new_short = part(*config.max_size, new_short, new_long);
    new_long = *config.max_size;
  }
  return image.width <= image.height ? ImageSize{new_long, new_short} : ImageSize{new_short, new_long};
}

std::unique_ptr<Framing> build(const RandomResizedCropConfig& config) {
  return std::make_unique<RandomResizedCrop>(config);
}
std::unique_ptr<Framing> build(const ResizeConfig& config) {
  return std::make_unique<Resize>(config);
}
std::unique_ptr<Framing> build(const CenterCropConfig& config) {
  return std::make_unique<CenterCrop>(config);
}
std::unique_ptr<Framing> build(const RandomCropConfig& config) {
  return std::make_unique<RandomCrop>(config.padding);
}

}  // namespace trainctl::dataset
