// Transforms of plug-ins. Part of dataset/image_config.h; without LibTorch.
#pragma once

#include <memory>

#include "config/plugged.h"
#include "config/traits.h"

namespace trainctl::dataset {

class PixelTransform;

/// What other folders must know of a transform.
struct TransformTraits {
  config::Stated<bool> is_random;
  config::Stated<bool> needs_bytes;   // comes before normalize
  config::Stated<bool> needs_floats;  // comes after normalize, in the workers
  config::Stated<bool> masks_follow;  // moves pixels as a mask can follow, or doesn't move them
};

/// What other folders ask the config struct of a plug-in's transform, which changes bytes and no size.
struct TransformInterface {
  TransformTraits traits;
  std::unique_ptr<PixelTransform> (*build)(const void* config);
};

/// A transform of a plug-in, in place of a config struct of ours.
class PluggedTransformConfig : public config::Plugged<TransformInterface> {
 public:
  using Plugged::Plugged;
  // config::traits_of() tells those of the plug-in.
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = false};
};

/// Returns what a config struct of a transform says, as an interface. `build(const Config&)`, which returns a
/// std::unique_ptr<PixelTransform>, is found in the namespace of the struct.
template <class Config>
TransformInterface transform_interface() {
  static_assert(config::WithTraits<Config, TransformTraits>,
                "a transform's config has `static constexpr TransformTraits traits{...}`");
  static_assert(!Config::traits.needs_floats, "a transform of a plug-in changes bytes");
  return {.traits = Config::traits, .build = [](const void* config) -> std::unique_ptr<PixelTransform> {
            return build(config::plugged_config<Config>(config));
          }};
}

}  // namespace trainctl::dataset
