#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "dataset/image/transform/transform.h"

namespace trainctl::dataset {
namespace {

/// The rule of torchvision.transforms.RandomErasing: ten tries at a rectangle smaller than the image, else none.
class RandomErasing final : public FloatTransform {
 public:
  RandomErasing(const RandomErasingConfig& config, const ImageShape& shape) : config_(config), shape_(shape) {}

  void apply(float* values, runtime::Random& random) const override {
    if (random.uniform() >= config_.p) return;
    constexpr int kTries = 10;
    const auto image_area = static_cast<double>(shape_.height * shape_.width);
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const double area = image_area * random.uniform(config_.scale[0], config_.scale[1]);
      const double ratio = std::exp(random.uniform(std::log(config_.ratio[0]), std::log(config_.ratio[1])));
      const double height = std::nearbyint(std::sqrt(area * ratio));
      const double width = std::nearbyint(std::sqrt(area / ratio));
      if (!(height < static_cast<double>(shape_.height) && width < static_cast<double>(shape_.width))) continue;
      fill(values, static_cast<std::int64_t>(height), static_cast<std::int64_t>(width), random);
      return;
    }
  }

 private:
  void fill(float* values, std::int64_t height, std::int64_t width, runtime::Random& random) const {
    const std::int64_t top = random.below(shape_.height - height + 1);
    const std::int64_t left = random.below(shape_.width - width + 1);
    for (std::int64_t y = top; y < top + height; ++y)
      std::fill_n(values + y * shape_.row_bytes() + left * shape_.channels, width * shape_.channels,
                  static_cast<float>(config_.value));
  }

  RandomErasingConfig config_;
  ImageShape shape_;
};

void check_range(std::string_view name, const std::vector<double>& range) {
  if (range.size() == 2 && range[0] <= range[1]) return;
  std::string given;
  for (const double value : range) given += (given.empty() ? "" : ", ") + core::format_number(value);
  throw core::Error("random_erasing: " + std::string(name) + " must be two numbers, the smaller first, got [" + given +
                    "]");
}

}  // namespace

std::unique_ptr<FloatTransform> build(const RandomErasingConfig& config, const ImageShape& shape) {
  check_range("scale", config.scale);
  check_range("ratio", config.ratio);
  return std::make_unique<RandomErasing>(config, shape);
}

}  // namespace trainctl::dataset
