#include "dataset/image/in_memory.h"

#include <cstring>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::dataset {
namespace {

class ImageSource final : public RawSource {
 public:
  explicit ImageSource(ImageSet set)
      : set_(std::move(set)),
        spec_{.input_shape = {set_.shape.channels, set_.shape.height, set_.shape.width},
              .input_dtype = at::kFloat,
              .num_classes = set_.num_classes,
              .class_names = set_.class_names} {}

  std::int64_t size() const override { return static_cast<std::int64_t>(set_.labels.size()); }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return set_.shape.bytes(); }

  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    const auto bytes = static_cast<std::size_t>(set_.shape.bytes());
    std::memcpy(sample, set_.pixels.data() + static_cast<std::size_t>(index) * bytes, bytes);
    return set_.labels[static_cast<std::size_t>(index)];
  }

  std::vector<std::int64_t> labels() const override { return {set_.labels.begin(), set_.labels.end()}; }
  std::string fingerprint() const override {
    const std::string labels = core::checksum(std::as_bytes(std::span(set_.labels)));
    return core::checksum("images " + std::to_string(size()) + " " + describe(set_.shape) + " " +
                          core::checksum(set_.pixels) + " " + labels);
  }

 private:
  ImageSet set_;
  SampleSpec spec_;
};

ImageSet subset(const ImageSet& set, const std::vector<std::int64_t>& images) {
  const auto bytes = static_cast<std::size_t>(set.shape.bytes());
  ImageSet part{
      .shape = set.shape, .pixels = {}, .labels = {}, .num_classes = set.num_classes, .class_names = set.class_names};
  part.pixels.resize(images.size() * bytes);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto from = static_cast<std::size_t>(images[i]);
    std::memcpy(part.pixels.data() + i * bytes, set.pixels.data() + from * bytes, bytes);
    part.labels.push_back(set.labels[from]);
  }
  return part;
}

}  // namespace

std::string describe(const ImageShape& shape) {
  return std::to_string(shape.channels) + "×" + std::to_string(shape.height) + "×" + std::to_string(shape.width);
}

std::unique_ptr<Source> make_source(ImageSet set) {
  core::ensure(set.pixels.size() == set.labels.size() * static_cast<std::size_t>(set.shape.bytes()),
               "an image set has a label for each image");
  return std::make_unique<ImageSource>(std::move(set));
}

Sources divided_sources(ImageSet set, const Split& split) {
  Sources sources;
  if (!split.divides()) {
    sources.train = make_source(std::move(set));
    return sources;
  }
  const auto bytes = static_cast<std::size_t>(set.shape.bytes());
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    hashes.push_back(key_hash({reinterpret_cast<const char*>(set.pixels.data()) + i * bytes, bytes}));
  const std::vector<std::int64_t> labels(set.labels.begin(), set.labels.end());
  const DividedSamples parts = divide(hashes, labels, split, "image");
  sources.train = make_source(subset(set, parts.train));
  if (!parts.eval.empty()) sources.eval = make_source(subset(set, parts.eval));
  if (!parts.test.empty()) sources.test = make_source(subset(set, parts.test));
  return sources;
}

}  // namespace trainctl::dataset
