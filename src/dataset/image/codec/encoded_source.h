// Sources of image files: what a folder, a tar shard or a table of bytes have in common. Their images differ in size;
// the transforms make them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/image/codec/class_mask.h"
#include "dataset/image/codec/decode.h"

namespace trainctl::dataset {

struct EncodedSample {
  EncodedImage image;
  std::int64_t label = 0;
};

/// Samples of image files. Pure and thread-safe, as every Source. spec().input_shape is {3, 0, 0}: the transforms know
/// the size.
class EncodedImageSource : public Source {
 public:
  /// The file's bytes: in `buffer`, or where they lie (mapped); valid as long as both. A file that can't be read is a
  /// BadSample.
  virtual EncodedSample read(std::int64_t index, std::vector<std::byte>& buffer, std::string& name) const = 0;

  /// Returns the labels of a sample, if spec().targets are label_sets.
  virtual std::span<const std::int64_t> label_set(std::int64_t) const { return {}; }

  /// Returns the classes of the pixels of a sample whose image has this size, if spec().targets are class_masks. A
  /// mask of another size is a BadSample. The buffer is overwritten.
  virtual ClassMask class_mask(std::int64_t, ImageSize, std::vector<std::byte>&) const { return {}; }

  /// Lets the system begin to read, without waiting for it. What can't be read isn't told before read().
  virtual void will_need(std::int64_t) const {}

  SampleReading reading() const final { return this; }
};

}  // namespace trainctl::dataset
