// Every sample of a set, one after another, as stored and as decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/image/decode.h"
#include "dataset/image_set.h"

namespace trainctl {

/// A sample that was read.
struct ReadSample {
  std::int64_t label = 0;
  std::int64_t bytes = 0;        // as stored
  std::optional<Image> image{};  // of images: decoded
};

class SetReader {
 public:
  explicit SetReader(const Source& source);
  /// A sample that can't be read or decoded is an Error.
  ReadSample read(std::int64_t index) const;
  /// "train.tar:0007", or "sample 7".
  std::string name(std::int64_t index) const;

 private:
  const Source& source_;
  const class EncodedImageSource* encoded_;
};

}  // namespace trainctl
