#include "dataset/image/codec/exif.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace trainctl::dataset {
namespace {

using Bytes = std::span<const std::byte>;

enum class ByteOrder { big, little };

std::optional<std::uint32_t> number(Bytes bytes, std::size_t at, std::size_t length, ByteOrder order) {
  if (at > bytes.size() || bytes.size() - at < length) return std::nullopt;
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < length; ++i)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + (order == ByteOrder::big ? i : length - 1 - i)]);
  return value;
}

/// Returns the body of the APP1 segment that begins with "Exif\0\0"; it stands before the image data.
Bytes exif_block(Bytes jpeg) {
  constexpr std::uint32_t kApp1 = 0xffe1;
  constexpr std::uint32_t kStartOfScan = 0xffda;
  std::size_t at = 2;
  while (const auto marker = number(jpeg, at, 2, ByteOrder::big)) {
    const auto length = number(jpeg, at + 2, 2, ByteOrder::big);
    if (*marker < 0xff01 || *marker == kStartOfScan || !length || *length < 2 || jpeg.size() - at - 2 < *length) break;
    const Bytes body = jpeg.subspan(at + 4, *length - 2);
    constexpr std::string_view kExif("Exif\0\0", 6);
    if (*marker == kApp1 && body.size() > kExif.size() &&
        std::string_view(reinterpret_cast<const char*>(body.data()), kExif.size()) == kExif)
      return body.subspan(kExif.size());
    at += 2 + *length;
  }
  return {};
}

}  // namespace

int exif_orientation(Bytes jpeg) {
  constexpr std::uint32_t kTag = 0x0112;
  const Bytes tiff = exif_block(jpeg);
  if (tiff.size() < 8) return 1;
  const ByteOrder order = tiff[0] == std::byte{'M'} ? ByteOrder::big : ByteOrder::little;
  const std::size_t directory = number(tiff, 4, 4, order).value_or(0);
  const std::uint32_t entries = number(tiff, directory, 2, order).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    const auto tag = number(tiff, entry, 2, order);
    if (!tag) break;
    if (*tag != kTag) continue;
    const std::uint32_t value = number(tiff, entry + 8, 2, order).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace trainctl::dataset
