#include "data_tools/set_reader.h"

#include <cstring>

#include "dataset/image/codec/encoded_source.h"

namespace trainctl::data_tools {

SetReader::SetReader(const dataset::Source& source)
    : source_(source), encoded_(dynamic_cast<const dataset::EncodedImageSource*>(&source)) {}

ReadSample SetReader::read(std::int64_t index) const {
  if (encoded_ != nullptr) {
    std::vector<std::byte> buffer;
    std::string name;
    const dataset::EncodedSample sample = encoded_->read(index, buffer, name);
    return {.label = sample.label,
            .bytes = static_cast<std::int64_t>(sample.image.bytes.size()),
            .image = dataset::decode(sample.image)};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(source_.sample_bytes()));
  ReadSample sample{.label = source_.get(index, bytes.data()), .bytes = source_.sample_bytes()};
  const dataset::SampleSpec& spec = source_.spec();
  if (!spec.is_image()) return sample;
  dataset::Image image;
  image.resize(spec.input_shape[1], spec.input_shape[2], spec.input_shape[0]);
  std::memcpy(image.bytes.data(), bytes.data(), bytes.size());
  sample.image = std::move(image);
  return sample;
}

std::string SetReader::name(std::int64_t index) const {
  if (encoded_ == nullptr) return "sample " + std::to_string(index);
  std::vector<std::byte> buffer;
  std::string name = "sample " + std::to_string(index);
  try {
    encoded_->read(index, buffer, name);
  } catch (const std::exception&) {
    return name;  // as far as it was known
  }
  return name;
}

}  // namespace trainctl::data_tools
