// One image on its way from a source's bytes, or a file's, to its place in a batch: framed, decoded as far as needed,
// changed as bytes, made floats, and perhaps robbed of a rectangle. Everything random comes from the Random that is
// passed in, so a sample doesn't depend on its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "dataset/config.h"
#include "dataset/image/codec/decode.h"
#include "dataset/image/in_memory.h"
#include "dataset/image/transform/crop_resize.h"
#include "dataset/image/transform/resample.h"
#include "dataset/stage_times.h"
#include "runtime/random.h"

namespace trainctl::dataset {

/// What one thread needs to work on images; reused from sample to sample.
struct ImageScratch {
  Image image{};  // that is being changed
  Image spare{};  // for what can't be done in place
  Image decoded{};
  Decoder decoder{};
  Resampler resampler{};
  std::vector<std::uint8_t> line{};
  std::vector<std::byte> file{};
  std::string name{};
};

/// Where an image's pixels come from when it is known which are needed: a decoder, or what was decoded before.
class PixelSource {
 public:
  virtual ~PixelSource() = default;
  /// Returns the size of the whole image.
  virtual ImageSize size() = 0;
  struct Pixels {
    ImageView image;  // until the next read
    Box box;          // where in it the region lies
  };
  virtual Pixels read(const DecodeRequest& request) = 0;
};

/// Changes bytes, not the size. May swap the image with `spare`.
class PixelTransform {
 public:
  virtual ~PixelTransform() = default;
  virtual void apply(Image& image, Image& spare, runtime::Random& random) const = 0;
};

/// Changes the finished floats, [H, W, C].
class FloatTransform {
 public:
  virtual ~FloatTransform() = default;
  virtual void apply(float* values, runtime::Random& random) const = 0;
};

std::unique_ptr<PixelTransform> build(const ColorJitterConfig& config);
std::unique_ptr<PixelTransform> build(const RandAugmentConfig& config);
std::unique_ptr<PixelTransform> build(const TrivialAugmentConfig& config);
std::unique_ptr<PixelTransform> build(const AutoAugmentConfig& config);
std::unique_ptr<PixelTransform> build(const PluggedTransformConfig& config);
std::unique_ptr<FloatTransform> build(const RandomErasingConfig& config, const ImageShape& shape);

/// Bytes to floats: byte * scale + bias, by channel.
class Normalize {
 public:
  /// byte / 255.
  explicit Normalize(std::int64_t channels);
  /// (byte / 255 - mean) / std.
  Normalize(const NormalizeConfig& config, std::int64_t channels);
  /// `size` values of whole pixels.
  void apply(const std::uint8_t* bytes, float* values, std::int64_t size) const;
  /// Returns the scale and bias of each channel, for code that normalises elsewhere.
  PixelScaling scaling() const;

 private:
  void set(const NormalizeConfig& config, std::int64_t channels);

  std::int64_t channels_;
  std::vector<float> scale_;  // of each value in a block of whole pixels
  std::vector<float> bias_;
};

/// The pixel of the original image that each pixel of the result shows, by its row and its column. -1: none, since it
/// lies beyond the image.
struct PixelOrigins {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> columns;
};

/// Random transforms are for training only.
enum class Phase { training, evaluation };

/// What the finished image is: floats, normalised, or bytes that are normalised elsewhere.
enum class PixelOutput { floats, bytes };
/// Bytes leave the host where that is asked for, or pays: with a GPU, and nothing that works on the floats.
PixelOutput pixel_output(const DatasetConfig& config, const LoaderOptions& options,
                         const std::vector<TransformConfig>& transforms);

/// The transforms of an experiment as one function. Crops, resizes and flips alone make no intermediate image: rows go
/// from the decoded pixels through the filter and the normalisation into the batch.
class Transforms {
 public:
  /// `input` is the shape of all images, or has no rows where they differ; the transforms must make them alike then.
  /// In evaluation, random ones are left out (`without_randomness`).
  Transforms(const std::vector<TransformConfig>& configs, const ImageShape& input, Phase phase,
             PixelOutput kind = PixelOutput::floats);

  const ImageShape& output() const { return output_; }
  PixelOutput output_kind() const { return kind_; }
  /// What normalises the output where it is bytes.
  PixelScaling scaling() const { return normalize_.scaling(); }
  /// `scratch.image` holds the image, and is used up; `pixels` receives [H, W, C].
  void apply(ImageScratch& scratch, runtime::Random random, void* pixels) const;
  /// Decodes an image from `supply` as far as is needed, and transforms it like apply().
  void decode_and_apply(PixelSource& supply, ImageScratch& scratch, runtime::Random random, void* pixels) const;
  /// Returns the origins of the pixels that apply() gives an image of this size with the same `random`.
  PixelOrigins origins(ImageSize size, runtime::Random random) const;

 private:
  class Progress;
  struct Flip {
    enum class Axis { horizontal, vertical } axis;
    double p;
  };
  using Step = std::variant<std::unique_ptr<Framing>, std::unique_ptr<PixelTransform>, Flip>;

  void add(const std::vector<TransformConfig>& configs);
  void run(Progress& progress, runtime::Random random, void* pixels) const;
  /// `size` bytes, from the output's byte `at` on.
  void write(const std::uint8_t* bytes, std::int64_t at, std::int64_t size, void* pixels) const;

  std::vector<Step> steps_;
  DecodeScaling scaling_;
  ImageShape output_;
  PixelOutput kind_;
  Normalize normalize_;
  std::vector<std::unique_ptr<FloatTransform>> erasings_;
};

}  // namespace trainctl::dataset
