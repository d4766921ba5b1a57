#include "dataset/transform.h"

#include "core/error.h"

namespace trainctl {
namespace {

template <class Config>
concept MovesPixels = requires(const Config& config, const ImageShape& shape) {
  { build(config, shape) } -> std::same_as<std::unique_ptr<PixelTransform>>;
};

/// Pixels are moved as bytes and erased as floats. Flips give the same on either side of normalize; the others don't.
void check_order(const std::vector<TransformConfig>& configs) {
  bool normalized = false;
  bool erased = false;
  for (const TransformConfig& config : configs) {
    const auto refuse = [&](std::string_view why) {
      throw Error("transforms: " + std::string(config.kind()) + " " + std::string(why));
    };
    const bool erases = config.get_if<RandomErasingConfig>() != nullptr;
    const bool normalizes = config.get_if<NormalizeConfig>() != nullptr;
    if (normalizes && normalized) refuse("stands twice");
    if (normalizes && erased) refuse("must stand before random_erasing, whose value is of normalised images");
    if (!normalizes && !erases && erased) refuse("must stand before random_erasing, which comes last");
    if (config.get_if<RandomCropConfig>() != nullptr && normalized)
      refuse("must stand before normalize: its padding is black");
    normalized = normalized || normalizes;
    erased = erased || erases;
  }
}

Normalize build_normalize(const std::vector<TransformConfig>& configs, const ImageShape& shape) {
  for (const TransformConfig& config : configs)
    if (const auto* normalize = config.get_if<NormalizeConfig>()) return {*normalize, shape};
  return Normalize(shape);
}

}  // namespace

Transforms::Transforms(const std::vector<TransformConfig>& configs, const ImageShape& shape, Phase phase)
    : normalize_(build_normalize(configs, shape)) {
  check_order(configs);
  for (const TransformConfig& config : configs)
    config.visit([&]<class Config>(const Config& transform) {
      if constexpr (MovesPixels<Config>)
        moves_.push_back(build(transform, shape));
      else if constexpr (std::same_as<Config, RandomErasingConfig>)
        erasings_.push_back(build(transform, shape));
    });
  if (phase == Phase::training) return;
  moves_.clear();
  erasings_.clear();
}

void Transforms::apply(Pixels& pixels, Random random, float* values) const {
  for (const auto& move : moves_) move->apply(pixels, random);
  normalize_.apply(pixels.bytes.data(), values);
  for (const auto& erasing : erasings_) erasing->apply(values, random);
}

}  // namespace trainctl
