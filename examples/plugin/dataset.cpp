// `dataset: {kind: drawn_shapes, num_samples: 2000}`: grey images of discs, squares and rings, at random places.
#include <cmath>
#include <cstring>

#include "core/file.h"
#include "dataset/batch_spec.h"
#include "dataset/missing_inputs.h"
#include "dataset/sources.h"
#include "example.h"
#include "runtime/random.h"

namespace example {
namespace {

using namespace trainctl;

constexpr std::int64_t kNumShapes = 3;

struct DrawnShapesConfig {
  static constexpr std::string_view kind = "drawn_shapes";
  std::int64_t num_samples = 2000;
  std::int64_t num_eval_samples = 500;
  std::int64_t size = 28;

  static constexpr auto fields() {
    using config::field;
    using C = DrawnShapesConfig;
    return config::Fields{
        field<&C::num_samples>("Training images.", config::at_least(1)),
        field<&C::num_eval_samples>("Evaluation images; 0 means no evaluation.", config::at_least(0)),
        field<&C::size>("Rows and columns of an image.", config::at_least(12)),
    };
  }
  dataset::DatasetFacts facts() const {
    return {
        .samples = dataset::ImageFacts{.num_channels = 1, .are_files = false, .size = dataset::ImageSize{size, size}},
        .targets = dataset::Targets::labels,
        .num_classes = kNumShapes,
        .class_names = std::vector<std::string>{"disc", "square", "ring"},
        .eval = dataset::EvalFacts{.has_own_set = num_eval_samples > 0}};
  }
};

dataset::SampleSpec spec_of(const DrawnShapesConfig& config) {
  return {.input_shape = {1, config.size, config.size},
          .num_classes = kNumShapes,
          .class_names = {"disc", "square", "ring"}};
}

/// A sample is a function of the set's name and the sample's index.
class DrawnShapes final : public dataset::RawSource {
 public:
  DrawnShapes(const DrawnShapesConfig& config, std::string_view set, std::int64_t num_samples)
      : side_(config.size), num_samples_(num_samples), key_(runtime::key_of(set)), spec_(spec_of(config)) {}

  std::int64_t size() const override { return num_samples_; }
  const dataset::SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return side_ * side_; }

  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    runtime::Random random(runtime::mix(key_, static_cast<std::uint64_t>(index)));
    const std::int64_t shape = index % kNumShapes;
    const double radius = random.uniform(0.15, 0.3) * static_cast<double>(side_);
    const double x = random.uniform(radius, static_cast<double>(side_) - radius);
    const double y = random.uniform(radius, static_cast<double>(side_) - radius);
    for (std::int64_t row = 0; row < side_; ++row)
      for (std::int64_t column = 0; column < side_; ++column) {
        const double right = std::abs(static_cast<double>(column) + 0.5 - x);
        const double down = std::abs(static_cast<double>(row) + 0.5 - y);
        const double distance = shape == 1 ? std::max(right, down) : std::hypot(right, down);
        const bool is_inside = distance < radius && (shape != 2 || distance > radius / 2);
        sample[row * side_ + column] = static_cast<std::byte>((is_inside ? 160 : 32) + random.below(64));
      }
    return shape;
  }

  std::string fingerprint() const override {
    return core::checksum("drawn shapes " + std::to_string(key_) + " " + std::to_string(num_samples_) + " " +
                          std::to_string(side_));
  }

 private:
  std::int64_t side_;
  std::int64_t num_samples_;
  std::uint64_t key_;
  dataset::SampleSpec spec_;
};

dataset::Sources build(const DrawnShapesConfig& config, const dataset::LoaderOptions&) {
  dataset::Sources sources{.train = std::make_unique<DrawnShapes>(config, "train", config.num_samples)};
  if (config.num_eval_samples > 0)
    sources.eval = std::make_unique<DrawnShapes>(config, "eval", config.num_eval_samples);
  return sources;
}

/// What batches look like, for `trainctl plan`, which opens no data.
dataset::BatchSpec batch_spec_of(const DrawnShapesConfig& config, const dataset::BatchSpecHints&) {
  return {.spec = spec_of(config), .num_samples = config.num_samples, .target_count = 1};
}

}  // namespace

void add_dataset(plugin::Registry& registry) {
  registry.add_dataset<DrawnShapesConfig>();
}

}  // namespace example
