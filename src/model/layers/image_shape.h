// The shape of one image or feature map on its way through a network.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl::model {

struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t pixels() const { return height * width; }
  std::int64_t size() const { return channels * pixels(); }
  /// "3×224×224".
  std::string text() const {
    return std::to_string(channels) + "×" + std::to_string(height) + "×" + std::to_string(width);
  }
};

}  // namespace trainctl::model
