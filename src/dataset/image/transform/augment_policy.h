// What the AutoAugment family and ColorJitter draw, apart from what it does to pixels, so that either can be compared.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "dataset/config.h"
#include "dataset/image/transform/augment.h"
#include "runtime/random.h"

namespace trainctl::dataset {

struct AugmentStep {
  AugmentOp op = AugmentOp::identity;
  double magnitude = 0;
};

std::vector<AugmentStep> draw(const RandAugmentConfig& config, ImageSize image, runtime::Random& random);
std::vector<AugmentStep> draw(const TrivialAugmentConfig& config, ImageSize image, runtime::Random& random);
std::vector<AugmentStep> draw(const AutoAugmentConfig& config, ImageSize image, runtime::Random& random);

/// The four adjustments in the order in which they are made.
struct JitterStep {
  enum class Kind { brightness, contrast, saturation, hue } kind;
  std::optional<double> amount;  // none: leave it alone
};
std::array<JitterStep, 4> draw(const ColorJitterConfig& config, runtime::Random& random);
void apply(const JitterStep& step, Image& image);

/// The two steps (operation, probability, tenth of its range) of a policy's pair, of which each has 25.
struct PolicyStep {
  AugmentOp op;
  double probability;
  int tenth = 0;
};
using PolicyPair = std::array<PolicyStep, 2>;
const std::array<PolicyPair, 25>& policy_pairs(AugmentPolicy policy);

}  // namespace trainctl::dataset
