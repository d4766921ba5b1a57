// Every sample of a set, one after another, as stored and as decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/image/codec/encoded_source.h"

namespace trainctl::data_tools {

/// A sample that was read.
struct ReadSample {
  std::vector<std::int64_t> labels{};     // one, or those of a sample that has several; none: not known
  std::int64_t bytes = 0;                 // as stored
  std::optional<dataset::Image> image{};  // of images: decoded
  bool is_turned = false;                 // EXIF says that the image is stored turned or mirrored
};

class SetReader {
 public:
  explicit SetReader(const dataset::Source& source);
  /// A sample that can't be read or decoded is an Error.
  ReadSample read(std::int64_t index) const;
  /// "train.tar:0007", or "sample 7".
  std::string name(std::int64_t index) const;

 private:
  dataset::SampleReading reading_;
};

}  // namespace trainctl::data_tools
