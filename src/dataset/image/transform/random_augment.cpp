// ColorJitter, RandAugment, TrivialAugment and AutoAugment: drawn by augment_policy, done by augment.
#include "core/error.h"
#include "dataset/image/transform/augment_policy.h"
#include "dataset/image/transform/transform.h"

namespace trainctl::dataset {
namespace {

template <class Config>
class RandomAugment final : public PixelTransform {
 public:
  explicit RandomAugment(const Config& config) : config_(config) {}

  void apply(Image& image, Image& spare, runtime::Random& random) const override {
    const Warp how{config_.interpolation, config_.fill};
    for (const AugmentStep& step : draw(config_, {image.height, image.width}, random))
      trainctl::dataset::apply(step.op, step.magnitude, how, image, spare);
  }

 private:
  Config config_;
};

class ColorJitter final : public PixelTransform {
 public:
  explicit ColorJitter(const ColorJitterConfig& config) : config_(config) {}

  void apply(Image& image, Image&, runtime::Random& random) const override {
    for (const JitterStep& step : draw(config_, random)) trainctl::dataset::apply(step, image);
  }

 private:
  ColorJitterConfig config_;
};

}  // namespace

std::unique_ptr<PixelTransform> build(const ColorJitterConfig& config) {
  return std::make_unique<ColorJitter>(config);
}

std::unique_ptr<PixelTransform> build(const RandAugmentConfig& config) {
  if (config.magnitude >= config.num_magnitude_bins)
    throw core::Error("rand_augment: magnitude " + std::to_string(config.magnitude) +
                      " is not below num_magnitude_bins, " + std::to_string(config.num_magnitude_bins));
  return std::make_unique<RandomAugment<RandAugmentConfig>>(config);
}

std::unique_ptr<PixelTransform> build(const TrivialAugmentConfig& config) {
  return std::make_unique<RandomAugment<TrivialAugmentConfig>>(config);
}

std::unique_ptr<PixelTransform> build(const AutoAugmentConfig& config) {
  return std::make_unique<RandomAugment<AutoAugmentConfig>>(config);
}

}  // namespace trainctl::dataset
