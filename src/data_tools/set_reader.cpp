#include "data_tools/set_reader.h"

#include <cstring>

#include "core/overloaded.h"
#include "dataset/image/codec/encoded_source.h"

namespace trainctl::data_tools {

namespace {

ReadSample read_file(const dataset::EncodedImageSource& source, std::int64_t index) {
  std::vector<std::byte> buffer;
  std::string name;
  const dataset::EncodedSample encoded = source.read(index, buffer, name);
  ReadSample sample{.bytes = static_cast<std::int64_t>(encoded.image.bytes.size()), .image = dataset::Image()};
  dataset::Decoder decoder;
  const dataset::ImageInfo info = decoder.open(encoded.image);
  decoder.read({.region = {.height = info.height, .width = info.width}}, *sample.image);
  sample.is_turned = info.orientation != 1;
  if (source.spec().targets == dataset::Targets::label_sets) {
    const std::span<const std::int64_t> labels = source.label_set(index);
    sample.labels.assign(labels.begin(), labels.end());
  } else if (source.spec().targets == dataset::Targets::class_masks) {
    source.class_mask(index, {.height = sample.image->height, .width = sample.image->width}, buffer);
  } else if (encoded.label >= 0) {
    sample.labels.push_back(encoded.label);
  }
  return sample;
}

ReadSample read_raw(const dataset::RawSource& source, std::int64_t index) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(source.sample_bytes()));
  ReadSample sample{.bytes = source.sample_bytes()};
  if (const std::int64_t label = source.get(index, bytes.data()); label >= 0) sample.labels.push_back(label);
  const dataset::SampleSpec& spec = source.spec();
  if (!spec.is_image()) return sample;
  dataset::Image image;
  image.resize(spec.input_shape[1], spec.input_shape[2], spec.input_shape[0]);
  std::memcpy(image.bytes.data(), bytes.data(), bytes.size());
  sample.image = std::move(image);
  return sample;
}

/// Returns the name of the sample's file, or the sample's number if the source fails before it knows the name.
std::string name_of_file(const dataset::EncodedImageSource& source, std::int64_t index) {
  std::vector<std::byte> buffer;
  std::string name = "sample " + std::to_string(index);
  try {
    source.read(index, buffer, name);
  } catch (const std::exception&) {
    return name;
  }
  return name;
}

}  // namespace

SetReader::SetReader(const dataset::Source& source) : reading_(source.reading()) {}

ReadSample SetReader::read(std::int64_t index) const {
  return std::visit(
      core::Overloaded{[&](const dataset::EncodedImageSource* source) { return read_file(*source, index); },
                       [&](const dataset::RawSource* source) { return read_raw(*source, index); }},
      reading_);
}

std::string SetReader::name(std::int64_t index) const {
  return std::visit(
      core::Overloaded{[&](const dataset::EncodedImageSource* source) { return name_of_file(*source, index); },
                       [&](const dataset::RawSource*) { return "sample " + std::to_string(index); }},
      reading_);
}

}  // namespace trainctl::data_tools
