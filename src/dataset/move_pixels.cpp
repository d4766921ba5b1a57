// Transforms that move pixels; definitions as torchvision's.
#include <algorithm>
#include <cstring>

#include "dataset/transform.h"

namespace trainctl {
namespace {

class RandomCrop final : public PixelTransform {
 public:
  RandomCrop(std::int64_t padding, const ImageShape& shape) : padding_(padding), shape_(shape) {}

  void apply(Pixels& pixels, Random& random) const override {
    const std::int64_t down = random.below(2 * padding_ + 1) - padding_;
    const std::int64_t right = random.below(2 * padding_ + 1) - padding_;
    if (down == 0 && right == 0) return;
    const std::int64_t from = std::clamp<std::int64_t>(right, 0, shape_.width);
    const std::int64_t to = std::clamp<std::int64_t>(shape_.width + right, 0, shape_.width);
    for (std::int64_t y = 0; y < shape_.height; ++y) {
      std::uint8_t* row = pixels.spare.data() + y * shape_.row_bytes();
      const bool inside = y + down >= 0 && y + down < shape_.height && from < to;
      if (!inside) {
        std::memset(row, 0, static_cast<std::size_t>(shape_.row_bytes()));
        continue;
      }
      const std::int64_t left_bytes = (from - right) * shape_.channels;
      const std::int64_t bytes = (to - from) * shape_.channels;
      std::memset(row, 0, static_cast<std::size_t>(left_bytes));
      std::memcpy(row + left_bytes, pixels.bytes.data() + (y + down) * shape_.row_bytes() + from * shape_.channels,
                  static_cast<std::size_t>(bytes));
      std::memset(row + left_bytes + bytes, 0, static_cast<std::size_t>(shape_.row_bytes() - left_bytes - bytes));
    }
    std::swap(pixels.bytes, pixels.spare);
  }

 private:
  std::int64_t padding_;
  ImageShape shape_;
};

class RandomHorizontalFlip final : public PixelTransform {
 public:
  RandomHorizontalFlip(double p, const ImageShape& shape) : p_(p), shape_(shape) {}

  void apply(Pixels& pixels, Random& random) const override {
    if (random.uniform() >= p_) return;
    for (std::int64_t y = 0; y < shape_.height; ++y) flip(pixels.bytes.data() + y * shape_.row_bytes());
  }

 private:
  void flip(std::uint8_t* row) const {
    if (shape_.channels == 1) {
      std::reverse(row, row + shape_.width);
      return;
    }
    std::uint8_t* left = row;
    std::uint8_t* right = row + (shape_.width - 1) * shape_.channels;
    for (; left < right; left += shape_.channels, right -= shape_.channels)
      std::swap_ranges(left, left + shape_.channels, right);
  }

  double p_;
  ImageShape shape_;
};

class RandomVerticalFlip final : public PixelTransform {
 public:
  RandomVerticalFlip(double p, const ImageShape& shape) : p_(p), shape_(shape) {}

  void apply(Pixels& pixels, Random& random) const override {
    if (random.uniform() >= p_) return;
    std::uint8_t* top = pixels.bytes.data();
    std::uint8_t* bottom = top + (shape_.height - 1) * shape_.row_bytes();
    for (; top < bottom; top += shape_.row_bytes(), bottom -= shape_.row_bytes())
      std::swap_ranges(top, top + shape_.row_bytes(), bottom);
  }

 private:
  double p_;
  ImageShape shape_;
};

}  // namespace

std::unique_ptr<PixelTransform> build(const RandomCropConfig& config, const ImageShape& shape) {
  return std::make_unique<RandomCrop>(config.padding, shape);
}

std::unique_ptr<PixelTransform> build(const RandomHorizontalFlipConfig& config, const ImageShape& shape) {
  return std::make_unique<RandomHorizontalFlip>(config.p, shape);
}

std::unique_ptr<PixelTransform> build(const RandomVerticalFlipConfig& config, const ImageShape& shape) {
  return std::make_unique<RandomVerticalFlip>(config.p, shape);
}

}  // namespace trainctl
