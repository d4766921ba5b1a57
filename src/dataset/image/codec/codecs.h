// The three libraries behind Decoder, each behind the same two calls.
#pragma once

#include <memory>

#include "dataset/image/codec/decode.h"

namespace trainctl::dataset {

class Codec {
 public:
  virtual ~Codec() = default;
  virtual ImageInfo open(const EncodedImage& image) = 0;
  virtual Box read(const DecodeRequest& request, Image& pixels) = 0;
};

std::unique_ptr<Codec> make_jpeg_codec();
std::unique_ptr<Codec> make_png_codec();
std::unique_ptr<Codec> make_webp_codec();

/// A damaged file, as `name: problem`.
BadSample bad_image(std::string_view name, std::string_view problem);

/// Refuses sizes that only a broken or hostile file has: Pillow's limit against decompression bombs.
void check_size(const EncodedImage& image, std::int64_t width, std::int64_t height);

}  // namespace trainctl::dataset
