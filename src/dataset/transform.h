// One image on its way from a source's bytes to its place in a batch: pixels are moved as bytes, become floats, and may
// lose a rectangle. Everything random comes from the Random that is passed in, so a sample doesn't depend on its
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/config.h"
#include "dataset/image_set.h"
#include "runtime/random.h"

namespace trainctl {

/// An image being changed, [H, W, C]; `spare` is as large, for what can't be done in place.
struct Pixels {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> spare;
};

/// Moves pixels.
class PixelTransform {
 public:
  virtual ~PixelTransform() = default;
  virtual void apply(Pixels& pixels, Random& random) const = 0;
};

/// Changes the finished floats, [H, W, C].
class FloatTransform {
 public:
  virtual ~FloatTransform() = default;
  virtual void apply(float* values, Random& random) const = 0;
};

std::unique_ptr<PixelTransform> build(const RandomCropConfig& config, const ImageShape& shape);
std::unique_ptr<PixelTransform> build(const RandomHorizontalFlipConfig& config, const ImageShape& shape);
std::unique_ptr<PixelTransform> build(const RandomVerticalFlipConfig& config, const ImageShape& shape);
std::unique_ptr<FloatTransform> build(const RandomErasingConfig& config, const ImageShape& shape);

/// Bytes to floats: byte * scale + bias, by channel.
class Normalize {
 public:
  /// byte / 255.
  explicit Normalize(const ImageShape& shape);
  /// (byte / 255 - mean) / std.
  Normalize(const NormalizeConfig& config, const ImageShape& shape);
  void apply(const std::uint8_t* bytes, float* values) const;

 private:
  void set(const NormalizeConfig& config, std::int64_t channels);

  std::int64_t size_;
  std::vector<float> scale_;  // of each value in a block of whole pixels
  std::vector<float> bias_;
};

/// Random transforms are for training only.
enum class Phase { training, evaluation };

/// The transforms of an experiment as one function.
class Transforms {
 public:
  Transforms(const std::vector<TransformConfig>& configs, const ImageShape& shape, Phase phase);
  /// `pixels.bytes` holds the image, and is used up; `values` receives [H, W, C].
  void apply(Pixels& pixels, Random random, float* values) const;

 private:
  std::vector<std::unique_ptr<PixelTransform>> moves_;
  Normalize normalize_;
  std::vector<std::unique_ptr<FloatTransform>> erasings_;
};

}  // namespace trainctl
