#include "tracking/trackers/confusion_image.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace trainctl::tracking {
namespace {

constexpr std::size_t kSide = 480;  // of the picture, about, in pixels
constexpr std::array<double, 3> kDarkest{8, 48, 107};

EncodedImage encode_png(std::size_t side, const std::vector<png_byte>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(side);
  image.height = static_cast<png_uint_32>(side);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) == 0)
    throw core::Error(std::string("cannot draw the confusion matrix: ") + image.message);
  bytes.resize(size);
  return {static_cast<std::int64_t>(side), static_cast<std::int64_t>(side), std::move(bytes)};
}

}  // namespace

std::optional<EncodedImage> confusion_image(const nlohmann::ordered_json& rows) {
  const std::size_t num_classes = rows.size();
  if (!rows.is_array() || num_classes == 0) return std::nullopt;
  for (const nlohmann::ordered_json& row : rows)
    if (!row.is_array() || row.size() != num_classes) return std::nullopt;
  const std::size_t cell = std::max<std::size_t>(kSide / num_classes, 1);
  const std::size_t side = cell * num_classes;
  std::vector<png_byte> pixels(side * side * 3);
  for (std::size_t row = 0; row < num_classes; ++row) {
    const auto counts = rows[row].get<std::vector<double>>();
    double sum = 0;
    for (const double count : counts) sum += count;
    png_byte* const first = pixels.data() + row * cell * side * 3;
    for (std::size_t x = 0; x < side; ++x)
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const double share = sum > 0 ? counts[x / cell] / sum : 0;
        first[x * 3 + channel] = static_cast<png_byte>(255 - share * (255 - kDarkest[channel]));
      }
    for (std::size_t y = 1; y < cell; ++y) std::memcpy(first + y * side * 3, first, side * 3);
  }
  return encode_png(side, pixels);
}

}  // namespace trainctl::tracking
