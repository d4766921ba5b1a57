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
    check_size(image, features_.width, features_.height);
    if (features_.has_animation != 0)
      throw bad_image(image.name, "animated WebP is not read; convert it to single images");
    check_end();
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
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {
        .rgba = pixels.bytes.data(), .stride = static_cast<int>(pixels.row_bytes()), .size = pixels.size()};
    const VP8StatusCode status = WebPDecode(data(), image_.bytes.size(), &config);
    WebPFreeDecBuffer(&config.output);
    check(status);
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

  /// Throws if the file is shorter than its RIFF header states: byte 4 has the size of the rest after byte 8.
  void check_end() const {
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 4;) length = length << 8 | std::to_integer<std::uint64_t>(image_.bytes[i]);
    if (length + 8 <= image_.bytes.size()) return;
    throw bad_image(image_.name, "the file ends after " + std::to_string(image_.bytes.size()) +
                                     " bytes, before its image does; it was not copied whole");
  }

  EncodedImage image_{};
  WebPBitstreamFeatures features_{};
};

}  // namespace

std::unique_ptr<Codec> make_webp_codec() {
  return std::make_unique<WebpCodec>();
}

}  // namespace trainctl::dataset
