// Which part of an image is kept, at which size: crops and resizes put together before a pixel is touched, so that only
// what they need is decoded and made.
#pragma once

#include <memory>

#include "dataset/config.h"
#include "dataset/image/transform/resample.h"
#include "runtime/random.h"

namespace trainctl::dataset {

/// `region` of the image becomes `size` by resampling, or as it is; `part` of that is kept, black where it reaches
/// beyond.
struct Frame {
  Region region;
  ImageSize size;
  Region part;
  bool is_resampled = false;

  /// The whole image.
  explicit Frame(ImageSize image);
  bool is_padded() const;
  /// Returns whether pixels lie beside the part. A part that grew or moved would show them in the place of black.
  bool hides_pixels() const;
  /// Cuts `crop` out of what is kept, and resamples it. Only where nothing was resampled or padded before.
  void crop_and_resample(const Region& crop, ImageSize to);
};

/// A transform that only says which part of an image is kept, at which size.
class Framing {
 public:
  virtual ~Framing() = default;
  /// False where the frame must be made into pixels first; then nothing was drawn from `random`. A new frame never
  /// must.
  virtual bool extend(Frame& frame, runtime::Random& random) const = 0;
};

std::unique_ptr<Framing> build(const RandomResizedCropConfig& config);
std::unique_ptr<Framing> build(const ResizeConfig& config);
std::unique_ptr<Framing> build(const CenterCropConfig& config);
std::unique_ptr<Framing> build(const RandomCropConfig& config);

/// What RandomResizedCrop draws.
Region draw_crop(const RandomResizedCropConfig& config, ImageSize image, runtime::Random& random);

/// torchvision's size of a resized image.
ImageSize resized(const ResizeConfig& config, ImageSize image);

}  // namespace trainctl::dataset
