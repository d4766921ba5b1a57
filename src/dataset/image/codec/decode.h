// JPEG, PNG and WebP to 8-bit RGB, told apart by their first bytes. What can't be read is a BadSample that names the
// file. As Pillow's convert("RGB"): palettes are looked up, alpha is dropped, grey is spread, CMYK is converted without
// a profile, an animated PNG is its first image. 16 bits keep the upper 8. Animated WebP is refused. EXIF orientation
// is told, not applied, as Pillow and torchvision do. libjpeg-turbo, libpng and libwebp do the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace trainctl::dataset {

/// A sample that can't be read or decoded; dataset.on_bad_sample says what then.
class BadSample : public core::Error {
 public:
  using core::Error::Error;
};

/// An image file's content; `name` is for messages. Both are the caller's.
struct EncodedImage {
  std::span<const std::byte> bytes;
  std::string_view name;
};

enum class ImageFormat { jpeg, png, webp };
std::string_view name_of(ImageFormat format);

/// What the header says.
struct ImageInfo {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;  // as stored: 1 grey, 2 grey and alpha, 3 (also of palettes), 4 (alpha or CMYK)
  ImageFormat format = ImageFormat::jpeg;
  int orientation = 1;  // EXIF's 1 to 8 (JPEG only)
};

/// 8-bit pixels, [height, width, channels], without gaps. `bytes` may have room for more.
struct Image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 3;
  std::vector<std::uint8_t> bytes{};

  std::int64_t row_bytes() const { return width * channels; }
  /// Takes memory for a size; what was in it is lost.
  void resize(std::int64_t rows, std::int64_t columns, std::int64_t depth = 3) {
    height = rows, width = columns, channels = depth;
    if (bytes.size() < size()) bytes.resize(size());
  }
  std::size_t size() const { return static_cast<std::size_t>(height * row_bytes()); }
  std::span<const std::uint8_t> pixels() const { return {bytes.data(), size()}; }
  std::uint8_t* row(std::int64_t y) { return bytes.data() + y * row_bytes(); }
  const std::uint8_t* row(std::int64_t y) const { return bytes.data() + y * row_bytes(); }
};

/// An image's pixels, somewhere.
struct ImageView {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 3;
  const std::uint8_t* bytes = nullptr;

  ImageView() = default;
  ImageView(std::int64_t rows, std::int64_t columns, std::int64_t depth, const std::uint8_t* pixels)
      : height(rows), width(columns), channels(depth), bytes(pixels) {}
  ImageView(const Image& image) : ImageView(image.height, image.width, image.channels, image.bytes.data()) {}
  std::int64_t row_bytes() const { return width * channels; }
  const std::uint8_t* row(std::int64_t y) const { return bytes + y * row_bytes(); }
};

/// A rectangle of pixels.
struct Region {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Region&) const = default;
};

/// A rectangle that needn't begin or end at a pixel's border.
struct Box {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

/// Whether a JPEG may be decoded smaller (1/2, 1/4, 1/8, in the frequency domain) where the caller shrinks it anyway.
enum class DecodeScaling { off, automatic };

struct DecodeRequest {
  Region region;                // of the image at its full size
  std::int64_t min_height = 0;  // scaling never makes the region smaller than this
  std::int64_t min_width = 0;
  DecodeScaling scaling = DecodeScaling::off;
  int eighths = 0;  // decode a JPEG at just this scale; 0: as the rest says
};

/// At how many eighths of its size an image is decoded for a request.
int eighths_for(const DecodeRequest& request, ImageFormat format);

/// One image after another; keeps its memory. For one thread.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// Reads the header. `image.bytes` must stay until the next open().
  ImageInfo open(const EncodedImage& image);
  /// Decodes at least the region of the opened image into `pixels`, once for each open(); returns where in `pixels` the
  /// region lies. Without scaling that is on whole pixels.
  Box read(const DecodeRequest& request, Image& pixels);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

ImageInfo probe(const EncodedImage& image);

/// The whole image.
Image decode(const EncodedImage& image);

/// Baseline JPEG, 4:2:0; quality 1 to 100.
std::vector<std::byte> encode_jpeg(const Image& image, int quality);

}  // namespace trainctl::dataset
