#include "data_tools/stored_image.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "dataset/image/transform/resample.h"

namespace trainctl::data_tools {
namespace {

void append_number(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xff);
}

/// Appends a chunk: length, type, data, CRC of type and data (https://www.w3.org/TR/png-3, 5.3).
void append_chunk(std::string& png, std::string_view type, const std::string& data) {
  append_number(png, static_cast<std::uint32_t>(data.size()));
  const std::string body = std::string(type) + data;
  png += body;
  append_number(png, static_cast<std::uint32_t>(
                         ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

}  // namespace

dataset::Image decode_limited(const dataset::EncodedImage& image, std::int64_t max_side) {
  dataset::Decoder decoder;
  const dataset::ImageInfo info = decoder.open(image);
  const double scale =
      std::min(1.0, static_cast<double>(max_side) / static_cast<double>(std::max(info.width, info.height)));
  const auto limit = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, std::lround(static_cast<double>(side) * scale));
  };
  dataset::Image pixels;
  dataset::Image result;
  result.resize(limit(info.height), limit(info.width));
  const dataset::Region whole{.height = info.height, .width = info.width};
  const dataset::Box box =
      decoder.read({.region = whole,
                    .min_height = result.height,
                    .min_width = result.width,
                    .scaling = scale < 1 ? dataset::DecodeScaling::automatic : dataset::DecodeScaling::off},
                   pixels);
  dataset::Resampler resampler;
  resampler.begin(pixels, {.box = box,
                           .height = result.height,
                           .width = result.width,
                           .part = {.height = result.height, .width = result.width}});
  for (std::int64_t y = 0; y < result.height; ++y)
    std::memcpy(result.row(y), resampler.row(y), static_cast<std::size_t>(result.row_bytes()));
  return result;
}

StoredImage limited(const dataset::EncodedImage& image, std::int64_t max_side, int quality) {
  const dataset::ImageInfo info = dataset::probe(image);
  if (std::max(info.width, info.height) > max_side)
    return {.ending = "jpg", .bytes = dataset::encode_jpeg(decode_limited(image, max_side), quality)};
  const std::string_view format = dataset::name_of(info.format);
  return {.ending = info.format == dataset::ImageFormat::jpeg ? "jpg" : std::string(format),
          .bytes = {image.bytes.begin(), image.bytes.end()}};
}

std::vector<std::byte> encode_png(const dataset::ImageShape& shape, const std::byte* pixels) {
  std::string header;
  append_number(header, static_cast<std::uint32_t>(shape.width));
  append_number(header, static_cast<std::uint32_t>(shape.height));
  header += '\x08';                                 // bits
  header += shape.channels == 1 ? '\x00' : '\x02';  // grey or RGB
  header.append(3, '\0');                           // deflate, adaptive filters, not interlaced
  std::string rows;
  for (std::int64_t y = 0; y < shape.height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels + y * shape.row_bytes()),
                static_cast<std::size_t>(shape.row_bytes()));
  }
  uLongf size = ::compressBound(rows.size());
  std::string packed(size, '\0');
  ::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size(),
              6);
  packed.resize(size);
  std::string png("\x89PNG\r\n\x1a\n", 8);
  append_chunk(png, "IHDR", header);
  append_chunk(png, "IDAT", packed);
  append_chunk(png, "IEND", "");
  const auto* begin = reinterpret_cast<const std::byte*>(png.data());
  return {begin, begin + png.size()};
}

}  // namespace trainctl::data_tools
