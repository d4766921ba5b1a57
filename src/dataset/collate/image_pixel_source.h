// The pixels of one image file on its way into a batch: decoded as far as is asked for, or taken from the cache.
#pragma once

#include "dataset/collate/sample_writer.h"
#include "dataset/image/cache/decoded_cache.h"
#include "dataset/image/codec/encoded_source.h"

namespace trainctl::dataset {

/// Reads and decodes no more, and no sooner, than it must: of an image that is in the cache not even its file. While
/// the cache has room, images are decoded whole and admitted.
class ImagePixelSource final : public PixelSource {
 public:
  struct Place {
    const EncodedImageSource& source;
    std::int64_t index;
    CachedSamples* cache;  // null: none
  };
  ImagePixelSource(const Place& place, Scratch& scratch) : place_(place), scratch_(scratch) {}

  ImageSize size() override;
  Pixels read(const DecodeRequest& request) override;
  // Known after size().
  std::int64_t label() const { return label_; }
  ImageSize known_size() const { return size_; }

 private:
  void open();
  Pixels read_cached(const DecodeRequest& request);
  Box decode(const DecodeRequest& request);

  Place place_;
  Scratch& scratch_;
  bool is_open_ = false;
  ImageSize size_;
  ImageFormat format_ = ImageFormat::jpeg;
  std::int64_t label_ = 0;
};

}  // namespace trainctl::dataset
