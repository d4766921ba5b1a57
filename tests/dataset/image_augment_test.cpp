#include "dataset/image/transform/augment.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "dataset/image/transform/augment_policy.h"
#include "support/reference.h"
#include "support/small_files.h"

namespace trainctl::dataset::image_augment_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace {

const std::map<std::string, AugmentOp> kOps = {{"identity", AugmentOp::identity},
                                               {"shear_x", AugmentOp::shear_x},
                                               {"shear_y", AugmentOp::shear_y},
                                               {"translate_x", AugmentOp::translate_x},
                                               {"translate_y", AugmentOp::translate_y},
                                               {"rotate", AugmentOp::rotate},
                                               {"brightness", AugmentOp::brightness},
                                               {"color", AugmentOp::color},
                                               {"contrast", AugmentOp::contrast},
                                               {"sharpness", AugmentOp::sharpness},
                                               {"posterize", AugmentOp::posterize},
                                               {"solarize", AugmentOp::solarize},
                                               {"auto_contrast", AugmentOp::auto_contrast},
                                               {"equalize", AugmentOp::equalize},
                                               {"invert", AugmentOp::invert}};

/// Made once: it takes seconds.
const TensorMap& cases() {
  static const TensorMap tensors = reference("images.py", "augment");
  return tensors;
}

Image image_of(const at::Tensor& pixels) {
  Image image;
  image.resize(pixels.size(0), pixels.size(1), pixels.size(2));
  std::memcpy(image.bytes.data(), pixels.data_ptr(), image.size());
  return image;
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::stringstream stream(name);
  for (std::string part; std::getline(stream, part, '/');) parts.push_back(part);
  return parts;
}

/// Share of the values that are more than a level away.
double share_apart(const Image& image, const Image& expected) {
  REQUIRE(image.size() == expected.size());
  std::int64_t apart = 0;
  for (std::size_t i = 0; i < image.size(); ++i) apart += std::abs(image.bytes[i] - expected.bytes[i]) > 1 ? 1 : 0;
  return static_cast<double>(apart) / static_cast<double>(image.size());
}

bool warps(AugmentOp op) {
  return op >= AugmentOp::shear_x && op <= AugmentOp::rotate;
}

}  // namespace

TEST_CASE("operations on pixels are within a level of torchvision's", "[dataset]") {
  const auto& tensors = cases();
  const Image original = image_of(tensors.at("image"));
  Image spare;
  int compared = 0;
  for (const auto& [name, pixels] : tensors) {
    const auto parts = parts_of(name);
    if (parts.size() != 4) continue;
    INFO(name);
    Image image = original;
    const AugmentOp op = kOps.at(parts[2]);
    const Warp how{parts[0] == "nearest" ? Interpolation::nearest : Interpolation::bilinear, std::stod(parts[1])};
    apply(op, std::stod(parts[3]), how, image, spare);
    // A point halfway between two pixels may go to either.
    const double allowed = warps(op) && how.interpolation == Interpolation::nearest ? 0.005 : 0;
    CHECK(share_apart(image, image_of(pixels)) <= allowed);
    ++compared;
  }
  CHECK(compared > 100);
}

TEST_CASE("colour adjustments are within a level of torchvision's", "[dataset]") {
  const auto& tensors = cases();
  const std::map<std::string, JitterStep::Kind> kinds = {{"brightness", JitterStep::Kind::brightness},
                                                         {"contrast", JitterStep::Kind::contrast},
                                                         {"saturation", JitterStep::Kind::saturation},
                                                         {"hue", JitterStep::Kind::hue}};
  for (const auto& [name, pixels] : tensors) {
    const auto parts = parts_of(name);
    if (parts[0] != "jitter") continue;
    INFO(name);
    Image image = image_of(tensors.at("image"));
    apply(JitterStep{kinds.at(parts[1]), std::stod(parts[2])}, image);
    CHECK(share_apart(image, image_of(pixels)) == 0);
  }
}

TEST_CASE("magnitudes are those that torchvision may draw, all of them", "[dataset]") {
  const auto tensors = reference("images.py", "spaces");
  const ImageSize size{160, 240};
  std::map<std::string, std::set<double>> drawn;
  const auto name_of_op = [](AugmentOp op) {
    return std::find_if(kOps.begin(), kOps.end(), [&](const auto& known) { return known.second == op; })->first;
  };
  for (std::uint64_t key = 0; key < 40'000; ++key) {
    runtime::Random random(key);
    const RandAugmentConfig rand{.num_ops = 1, .magnitude = static_cast<std::int64_t>(key % 31)};
    for (const AugmentStep& step : draw(rand, size, random))
      drawn["rand/" + name_of_op(step.op)].insert(step.magnitude);
    for (const AugmentStep& step : draw(TrivialAugmentConfig{}, size, random))
      drawn["trivial/" + name_of_op(step.op)].insert(step.magnitude);
    for (const AugmentPolicy policy : {AugmentPolicy::imagenet, AugmentPolicy::cifar10, AugmentPolicy::svhn})
      for (const AugmentStep& step : draw(AutoAugmentConfig{.policy = policy}, size, random))
        drawn["auto/" + name_of_op(step.op)].insert(step.magnitude);
  }
  for (const auto& [name, values] : tensors) {
    INFO(name);
    const auto* begin = static_cast<const double*>(values.data_ptr());
    const std::set<double> expected(begin, begin + values.numel());
    for (const double value : drawn.at(name)) {
      INFO(value);
      CHECK(std::any_of(expected.begin(), expected.end(), [&](double e) { return std::abs(e - value) < 1e-5; }));
    }
    if (!name.starts_with("auto")) CHECK(drawn.at(name).size() + 1 >= expected.size());  // -0 is 0
  }
  CHECK(drawn.count("rand/invert") == 0);
}

TEST_CASE("policies do their operations as often as they say", "[dataset]") {
  for (const PolicyPair& pair : policy_pairs(AugmentPolicy::imagenet))
    for (const PolicyStep& step : pair) CHECK((step.probability >= 0 && step.probability <= 1 && step.tenth < 10));
  std::int64_t steps = 0;
  double expected = 0;
  for (const PolicyPair& pair : policy_pairs(AugmentPolicy::svhn))
    expected += (pair[0].probability + pair[1].probability) / 25;
  constexpr int kDraws = 20'000;
  for (std::uint64_t key = 0; key < kDraws; ++key) {
    runtime::Random random(key);
    steps += static_cast<std::int64_t>(draw(AutoAugmentConfig{.policy = AugmentPolicy::svhn}, {32, 32}, random).size());
  }
  CHECK(std::abs(static_cast<double>(steps) / kDraws - expected) < 0.03);
}

TEST_CASE("jitter makes all four adjustments in every order, within bounds", "[dataset]") {
  const ColorJitterConfig config{.brightness = 0.4, .contrast = 1.5, .saturation = 0, .hue = 0.1};
  std::map<std::vector<int>, int> orders;
  for (std::uint64_t key = 0; key < 4800; ++key) {
    runtime::Random random(key);
    std::vector<int> order;
    for (const JitterStep& step : draw(config, random)) {
      order.push_back(static_cast<int>(step.kind));
      switch (step.kind) {
        case JitterStep::Kind::brightness:
          REQUIRE(std::abs(*step.amount - 1) <= 0.4);
          break;
        case JitterStep::Kind::contrast:
          REQUIRE((*step.amount >= 0 && *step.amount <= 2.5));
          break;
        case JitterStep::Kind::saturation:
          REQUIRE(!step.amount);
          break;
        case JitterStep::Kind::hue:
          REQUIRE(std::abs(*step.amount) <= 0.1);
          break;
      }
    }
    ++orders[order];
  }
  CHECK(orders.size() == 24);
  for (const auto& [order, count] : orders) CHECK((count > 120 && count < 290));
}

}  // namespace trainctl::dataset::image_augment_test
