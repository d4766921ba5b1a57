#include "dataset/image/codec/decode.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/text.h"
#include "dataset/image/codec/codecs.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kMostPixels = 178'956'970;

bool starts_with(std::span<const std::byte> bytes, std::string_view magic, std::size_t at = 0) {
  return bytes.size() >= at + magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

std::optional<ImageFormat> format_of(std::span<const std::byte> bytes) {
  if (starts_with(bytes, "\xff\xd8\xff")) return ImageFormat::jpeg;
  if (starts_with(bytes, "\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  if (starts_with(bytes, "RIFF") && starts_with(bytes, "WEBP", 8)) return ImageFormat::webp;
  return std::nullopt;
}

/// Explains bytes that no codec reads: there are none, or they are in another format.
std::string other_format(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "the file is empty";
  struct Known {
    std::string_view magic;
    std::size_t at;
    std::string_view name;
  };
  constexpr std::array kKnown = {Known{"GIF8", 0, "GIF"},
                                 Known{"BM", 0, "BMP"},
                                 Known{"II*", 0, "TIFF"},
                                 Known{"MM\0*", 0, "TIFF"},
                                 Known{"ftypheic", 4, "HEIC"},
                                 Known{"ftypavif", 4, "AVIF"},
                                 Known{"\x76\x2f\x31\x01", 0, "OpenEXR"},
                                 Known{"<svg", 0, "SVG"},
                                 Known{"<?xml", 0, "XML"},
                                 Known{"<!DOCTYPE", 0, "HTML"},
                                 Known{"<html", 0, "HTML"}};
  for (const Known& known : kKnown)
    if (starts_with(bytes, known.magic, known.at))
      return "it is " + std::string(known.name) + ", not JPEG, PNG or WebP";
  return "its first bytes are those of neither JPEG, PNG nor WebP";
}

}  // namespace

std::string_view name_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::webp:
      return "WebP";
  }
  return "";
}

int eighths_for(const DecodeRequest& request, ImageFormat format) {
  if (request.eighths > 0) return request.eighths;
  if (request.scaling == DecodeScaling::off || format != ImageFormat::jpeg) return 8;
  for (const int eighths : {1, 2, 4})
    if (request.region.height * eighths >= request.min_height * 8 &&
        request.region.width * eighths >= request.min_width * 8)
      return eighths;
  return 8;
}

BadSample bad_image(std::string_view name, std::string_view problem) {
  BadSample error(std::string(name) + ": " + std::string(problem));
  error.hint("dataset.on_bad_sample: skip or replace goes on without such files");
  return error;
}

void check_size(const EncodedImage& image, std::int64_t width, std::int64_t height) {
  if (width > 0 && height > 0 && width <= kMostPixels / height) return;
  throw bad_image(image.name, "its header says " + std::to_string(width) + "×" + std::to_string(height) +
                                  " pixels; at most " + core::format_count(kMostPixels) + " are read");
}

struct Decoder::State {
  std::array<std::unique_ptr<Codec>, 3> codecs;  // by format, made when first needed
  Codec* opened = nullptr;
};

Decoder::Decoder() = default;
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

ImageInfo Decoder::open(const EncodedImage& image) {
  if (!state_) state_ = std::make_unique<State>();
  const std::optional<ImageFormat> format = format_of(image.bytes);
  if (!format) throw bad_image(image.name, "cannot be decoded: " + other_format(image.bytes));
  std::unique_ptr<Codec>& codec = state_->codecs[static_cast<std::size_t>(*format)];
  if (!codec)
    codec = *format == ImageFormat::jpeg  ? make_jpeg_codec()
            : *format == ImageFormat::png ? make_png_codec()
                                          : make_webp_codec();
  state_->opened = codec.get();
  return codec->open(image);
}

Box Decoder::read(const DecodeRequest& request, Image& pixels) {
  core::ensure(state_ != nullptr && state_->opened != nullptr, "an image is opened before it is read");
  return state_->opened->read(request, pixels);
}

ImageInfo probe(const EncodedImage& image) {
  return Decoder().open(image);
}

Image decode(const EncodedImage& image) {
  Decoder decoder;
  const ImageInfo info = decoder.open(image);
  Image pixels;
  decoder.read({.region = {.height = info.height, .width = info.width}}, pixels);
  return pixels;
}

}  // namespace trainctl::dataset
