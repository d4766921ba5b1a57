// `dataset.transforms: [{kind: salt_and_pepper, amount: 0.05}]`: some pixels become black or white.
#include "dataset/image/transform/transform.h"
#include "example.h"

namespace example {
namespace {

using namespace trainctl;

struct SaltAndPepperConfig {
  static constexpr std::string_view kind = "salt_and_pepper";
  static constexpr dataset::TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = true};
  double amount = 0.05;

  static constexpr auto fields() {
    return config::Fields{config::field<&SaltAndPepperConfig::amount>("Share of the pixels.", config::fraction)};
  }
};

class SaltAndPepper final : public dataset::PixelTransform {
 public:
  explicit SaltAndPepper(double amount) : amount_(amount) {}
  void apply(dataset::Image& image, dataset::Image&, runtime::Random& random) const override {
    const auto channels = static_cast<std::size_t>(image.channels);
    for (std::size_t i = 0; i < image.size(); i += channels) {
      if (random.uniform() >= amount_) continue;
      const std::uint8_t value = random.below(2) == 0 ? 0 : 255;
      for (std::size_t c = 0; c < channels; ++c) image.bytes[i + c] = value;
    }
  }

 private:
  double amount_;
};

std::unique_ptr<dataset::PixelTransform> build(const SaltAndPepperConfig& config) {
  return std::make_unique<SaltAndPepper>(config.amount);
}

}  // namespace

void add_transform(plugin::Registry& registry) {
  registry.add_transform<SaltAndPepperConfig>();
}

}  // namespace example
