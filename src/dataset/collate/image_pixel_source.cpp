#include "dataset/collate/image_pixel_source.h"

namespace trainctl::dataset {
namespace {

/// Returns the region in the coordinates of the image at a smaller scale.
Box in_whole(const Region& region, int eighths) {
  const double scale = eighths / 8.0;
  return {static_cast<double>(region.top) * scale, static_cast<double>(region.left) * scale,
          static_cast<double>(region.height) * scale, static_cast<double>(region.width) * scale};
}

}  // namespace

ImageSize ImagePixelSource::size() {
  if (place_.cache != nullptr)
    if (const auto known = place_.cache->find(place_.index, 0)) {
      size_ = known->size;
      format_ = known->format;
      label_ = known->label;
      return size_;
    }
  open();
  return size_;
}

PixelSource::Pixels ImagePixelSource::read(const DecodeRequest& request) {
  if (place_.cache != nullptr) return read_cached(request);
  const Box box = decode(request);
  return {scratch_.image.decoded, box};
}

PixelSource::Pixels ImagePixelSource::read_cached(const DecodeRequest& request) {
  CachedSamples& cache = *place_.cache;
  const int eighths = eighths_for(request, format_);
  if (const auto known = cache.find(place_.index, eighths)) {
    cache.count_hit();
    return {known->pixels, in_whole(request.region, eighths)};
  }
  cache.count_miss();
  const std::int64_t bytes = 3 * (size_.height * eighths / 8 + 1) * (size_.width * eighths / 8 + 1);
  if (!cache.has_room(bytes)) {
    const Box box = decode(request);
    return {scratch_.image.decoded, box};
  }
  decode({.region = {.height = size_.height, .width = size_.width}, .eighths = eighths});
  const Image& whole = scratch_.image.decoded;
  cache.admit(place_.index, {.size = size_, .format = format_, .eighths = eighths, .label = label_, .pixels = whole});
  return {whole, in_whole(request.region, eighths)};
}

Box ImagePixelSource::decode(const DecodeRequest& request) {
  if (!is_open_) open();
  StageClock clock;
  const Box box = scratch_.image.decoder.read(request, scratch_.image.decoded);
  clock.lap(scratch_.times.decode);
  return box;
}

void ImagePixelSource::open() {
  StageClock clock;
  const EncodedSample sample = place_.source.read(place_.index, scratch_.image.file, scratch_.image.name);
  clock.lap(scratch_.times.read);
  const ImageInfo info = scratch_.image.decoder.open(sample.image);
  clock.lap(scratch_.times.decode);
  size_ = {info.height, info.width};
  format_ = info.format;
  label_ = sample.label;
  is_open_ = true;
}

}  // namespace trainctl::dataset
