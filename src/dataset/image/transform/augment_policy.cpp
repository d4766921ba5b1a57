#include "dataset/image/transform/augment_policy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace trainctl::dataset {
namespace {

/// The largest magnitude of each operation.
struct Ranges {
  double shear = 0.3;
  double translate_x = 0;  // pixels
  double translate_y = 0;
  double rotate = 30;  // degrees
  double factor = 0.9;
  int bits_lost = 4;
};

Ranges ranges_of(ImageSize image) {
  return {.translate_x = 150.0 / 331.0 * static_cast<double>(image.width),
          .translate_y = 150.0 / 331.0 * static_cast<double>(image.height)};
}

constexpr Ranges kWide{
    .shear = 0.99, .translate_x = 32, .translate_y = 32, .rotate = 135, .factor = 0.99, .bits_lost = 6};

/// Returns torch.linspace(begin, end, bins)[bin]: in 32 bits and from the nearer end, as torch computes it.
double spaced(double begin, double end, std::int64_t bins, std::int64_t bin) {
  const float step = (static_cast<float>(end) - static_cast<float>(begin)) / static_cast<float>(bins - 1);
  if (bin < bins / 2) return static_cast<double>(static_cast<float>(begin) + step * static_cast<float>(bin));
  return static_cast<double>(static_cast<float>(end) - step * static_cast<float>(bins - 1 - bin));
}

struct Bin {
  std::int64_t count;
  std::int64_t index;
};

/// Returns the magnitude of an operation that has one. An operation with two directions gets a negative magnitude half
/// of the time.
double magnitude_of(AugmentOp op, const Ranges& ranges, Bin bin, runtime::Random& random) {
  const auto either_way = [&](double most) {
    const double value = spaced(0, most, bin.count, bin.index);
    return random.uniform() < 0.5 ? -value : value;
  };
  switch (op) {
    case AugmentOp::shear_x:
    case AugmentOp::shear_y:
      return either_way(ranges.shear);
    case AugmentOp::translate_x:
      return either_way(ranges.translate_x);
    case AugmentOp::translate_y:
      return either_way(ranges.translate_y);
    case AugmentOp::rotate:
      return either_way(ranges.rotate);
    case AugmentOp::brightness:
    case AugmentOp::color:
    case AugmentOp::contrast:
    case AugmentOp::sharpness:
      return either_way(ranges.factor);
    case AugmentOp::posterize: {
      const double unit = static_cast<double>(bin.count - 1) / ranges.bits_lost;
      return std::nearbyint(8 - static_cast<double>(static_cast<float>(static_cast<double>(bin.index) / unit)));
    }
    case AugmentOp::solarize:
      return spaced(1, 0, bin.count, bin.index);
    case AugmentOp::identity:
    case AugmentOp::auto_contrast:
    case AugmentOp::equalize:
    case AugmentOp::invert:
      return 0;
  }
  throw std::logic_error("unknown augmentation");
}

bool has_magnitude(AugmentOp op) {
  return op != AugmentOp::identity && op != AugmentOp::auto_contrast && op != AugmentOp::equalize &&
         op != AugmentOp::invert;
}

/// The number of operations that RandAugment and TrivialAugment choose from: all but invert.
constexpr std::int64_t kNumOps = static_cast<std::int64_t>(AugmentOp::equalize) + 1;

}  // namespace

std::vector<AugmentStep> draw(const RandAugmentConfig& config, ImageSize image, runtime::Random& random) {
  std::vector<AugmentStep> steps;
  for (std::int64_t i = 0; i < config.num_ops; ++i) {
    const auto op = static_cast<AugmentOp>(random.below(kNumOps));
    steps.push_back({op, magnitude_of(op, ranges_of(image), {config.num_magnitude_bins, config.magnitude}, random)});
  }
  return steps;
}

std::vector<AugmentStep> draw(const TrivialAugmentConfig& config, ImageSize, runtime::Random& random) {
  const auto op = static_cast<AugmentOp>(random.below(kNumOps));
  const std::int64_t bin = has_magnitude(op) ? random.below(config.num_magnitude_bins) : 0;
  return {{op, magnitude_of(op, kWide, {config.num_magnitude_bins, bin}, random)}};
}

std::vector<AugmentStep> draw(const AutoAugmentConfig& config, ImageSize image, runtime::Random& random) {
  const auto& pairs = policy_pairs(config.policy);
  std::vector<AugmentStep> steps;
  for (const PolicyStep& step : pairs[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(pairs.size())))])
    if (random.uniform() < step.probability)
      steps.push_back({step.op, magnitude_of(step.op, ranges_of(image), {10, step.tenth}, random)});
  return steps;
}

std::array<JitterStep, 4> draw(const ColorJitterConfig& config, runtime::Random& random) {
  using Kind = JitterStep::Kind;
  const auto factor = [&](double strength) -> std::optional<double> {
    if (strength == 0) return std::nullopt;
    return random.uniform(std::max(0.0, 1 - strength), 1 + strength);
  };
  std::array<JitterStep, 4> steps = {
      JitterStep{Kind::brightness, factor(config.brightness)}, JitterStep{Kind::contrast, factor(config.contrast)},
      JitterStep{Kind::saturation, factor(config.saturation)}, JitterStep{Kind::hue, {}}};
  if (config.hue > 0) steps[3].amount = random.uniform(-config.hue, config.hue);
  for (std::size_t i = steps.size(); i > 1; --i)
    std::swap(steps[i - 1], steps[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  return steps;
}

void apply(const JitterStep& step, Image& image) {
  if (!step.amount) return;
  switch (step.kind) {
    case JitterStep::Kind::brightness:
      return adjust_brightness(image, *step.amount);
    case JitterStep::Kind::contrast:
      return adjust_contrast(image, *step.amount);
    case JitterStep::Kind::saturation:
      return adjust_saturation(image, *step.amount);
    case JitterStep::Kind::hue:
      return adjust_hue(image, *step.amount);
  }
}

}  // namespace trainctl::dataset
