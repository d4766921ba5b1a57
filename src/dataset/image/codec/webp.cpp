// libwebp.
#include <webp/decode.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "dataset/image/codec/codecs.h"

namespace trainctl::dataset {
namespace {

std::string_view meaning(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OK:
      return "nothing is wrong";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "not enough memory";
    case VP8_STATUS_INVALID_PARAM:
      return "impossible size";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "the data make no sense";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "a feature that libwebp doesn't read";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the data end too early";
    case VP8_STATUS_USER_ABORT:
      return "stopped";
  }
  return "unknown status";
}

class WebpCodec final : public Codec {
 public:
  ImageInfo open(const EncodedImage& image) override {
    image_ = image;
    check(WebPGetFeatures(data(), image.bytes.size(), &features_));
    check_end();
    check_size(image, features_.width, features_.height);
    if (features_.has_animation != 0)
      throw bad_image(image.name, "animated WebP is not read; convert it to single images");
    return {.width = features_.width,
            .height = features_.height,
            .channels = features_.has_alpha != 0 ? 4 : 3,
            .format = ImageFormat::webp};
  }

  Box read(const DecodeRequest& request, Image& pixels) override {
    WebPDecoderConfig config;
    core::ensure(WebPInitDecoderConfig(&config) != 0, "libwebp is the one that its headers are of");
    // libwebp begins on even pixels; two more on each side, so that upsampled chroma sees its true neighbours.
    const Region& region = request.region;
    const std::int64_t top = std::max<std::int64_t>(0, region.top / 2 * 2 - 2);
    const std::int64_t left = std::max<std::int64_t>(0, region.left / 2 * 2 - 2);
    pixels.resize(std::min<std::int64_t>(features_.height, region.top + region.height + 2) - top,
                  std::min<std::int64_t>(features_.width, region.left + region.width + 2) - left);
    config.options.use_cropping = 1;
    config.options.crop_left = static_cast<int>(left);
    config.options.crop_top = static_cast<int>(top);
    config.options.crop_width = static_cast<int>(pixels.width);
    config.options.crop_height = static_cast<int>(pixels.height);
    // libwebp finds damage in the transparency only if that is decoded, too.
    const bool has_alpha = features_.has_alpha != 0;
    const auto num_pixels = static_cast<std::size_t>(pixels.width * pixels.height);
    if (has_alpha) rgba_.resize(4 * num_pixels);
    config.output.colorspace = has_alpha ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {.rgba = has_alpha ? rgba_.data() : pixels.bytes.data(),
                            .stride = static_cast<int>((has_alpha ? 4 : 3) * pixels.width),
                            .size = (has_alpha ? 4 : 3) * num_pixels};
    const VP8StatusCode status = WebPDecode(data(), image_.bytes.size(), &config);
    WebPFreeDecBuffer(&config.output);
    check(status);
    for (std::size_t i = 0; has_alpha && i < num_pixels; ++i)
      std::copy_n(rgba_.data() + 4 * i, 3, pixels.bytes.data() + 3 * i);
    return {.top = static_cast<double>(region.top - top),
            .left = static_cast<double>(region.left - left),
            .height = static_cast<double>(region.height),
            .width = static_cast<double>(region.width)};
  }

 private:
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(image_.bytes.data()); }

  void check(VP8StatusCode status) const {
    if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status != VP8_STATUS_OK) throw bad_image(image_.name, "damaged WebP: " + std::string(meaning(status)));
  }

  std::uint64_t size_at(std::size_t at) const {
    std::uint64_t size = 0;
    for (std::size_t i = at + 4; i-- > at;) size = size << 8 | std::to_integer<std::uint64_t>(image_.bytes[i]);
    return size;
  }

  /// Throws if the file is shorter than its RIFF header states, or if its chunks are longer. What follows is no part of
  /// the image, and libwebp would read on in it.
  void check_end() {
    constexpr std::size_t kHeader = 8;  // of the file and of each chunk: a name, and the size of what follows
    const std::uint64_t end = size_at(4) + kHeader;
    if (end > image_.bytes.size())
      throw bad_image(image_.name, "the file ends after " + std::to_string(image_.bytes.size()) +
                                       " bytes, before its image does; it was not copied whole");
    image_.bytes = image_.bytes.first(end);
    for (std::size_t at = 12; at + kHeader <= end;) {
      const std::uint64_t size = size_at(at + 4);
      if (size > end - at - kHeader)
        throw bad_image(image_.name,
                        "damaged WebP: the chunk at byte " + std::to_string(at) + " is longer than the file");
      at += kHeader + size + size % 2;
    }
  }

  EncodedImage image_{};
  WebPBitstreamFeatures features_{};
  std::vector<std::uint8_t> rgba_;  // of images with transparency
};

}  // namespace

std::unique_ptr<Codec> make_webp_codec() {
  return std::make_unique<WebpCodec>();
}

}  // namespace trainctl::dataset
