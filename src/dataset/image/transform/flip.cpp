// Flips, where other transforms follow them; as the last step they are part of writing the batch.
#include <algorithm>

#include "dataset/image/transform/transform.h"

namespace trainctl::dataset {
namespace {

class RandomHorizontalFlip final : public PixelTransform {
 public:
  explicit RandomHorizontalFlip(double p) : p_(p) {}

  void apply(Image& image, Image&, runtime::Random& random) const override {
    if (random.uniform() >= p_) return;
    for (std::int64_t y = 0; y < image.height; ++y) {
      std::uint8_t* left = image.row(y);
      std::uint8_t* right = left + (image.width - 1) * image.channels;
      for (; left < right; left += image.channels, right -= image.channels)
        std::swap_ranges(left, left + image.channels, right);
    }
  }

 private:
  double p_;
};

class RandomVerticalFlip final : public PixelTransform {
 public:
  explicit RandomVerticalFlip(double p) : p_(p) {}

  void apply(Image& image, Image&, runtime::Random& random) const override {
    if (random.uniform() >= p_) return;
    for (std::int64_t y = 0; y < image.height / 2; ++y)
      std::swap_ranges(image.row(y), image.row(y) + image.row_bytes(), image.row(image.height - 1 - y));
  }

 private:
  double p_;
};

}  // namespace

std::unique_ptr<PixelTransform> build(const RandomHorizontalFlipConfig& config) {
  return std::make_unique<RandomHorizontalFlip>(config.p);
}

std::unique_ptr<PixelTransform> build(const RandomVerticalFlipConfig& config) {
  return std::make_unique<RandomVerticalFlip>(config.p);
}

}  // namespace trainctl::dataset
