#include <ATen/ops/empty.h>

#include <span>

#include "dataset/image/in_memory.h"
#include "dataset/image/transform/transform.h"
#include "dataset/inputs.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kMostSizes = 64;  // of images, whose transforms are kept

/// Turns RGB into grey by the integer formula of Pillow's convert("L").
void make_grey(Image& image) {
  const std::int64_t count = image.height * image.width;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* rgb = image.bytes.data() + 3 * i;
    image.bytes[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16);
  }
  image.channels = 1;
}

std::string text_of(const ImageShape& shape) {
  return std::to_string(shape.channels) + "×" + std::to_string(shape.height) + "×" + std::to_string(shape.width);
}

}  // namespace

struct ImageInputs::Workshop {
  std::vector<TransformConfig> configs;
  ImageShape wanted;
  std::map<std::pair<std::int64_t, std::int64_t>, Transforms> by_size{};
  ImageScratch scratch{};

  const Transforms& transforms_of(const ImageShape& given, std::string_view name) {
    if (const auto found = by_size.find({given.height, given.width}); found != by_size.end()) return found->second;
    Transforms made(configs, given, Phase::evaluation);
    if (made.output() != wanted)
      throw core::Error(std::string(name) + " is an image of " + text_of(given) + ", of which the transforms make " +
                        text_of(made.output()) + "; the network takes " + text_of(wanted))
          .hint("resize it, or add a resize to dataset.transforms");
    if (by_size.size() >= kMostSizes) by_size.clear();
    return by_size.emplace(std::pair(given.height, given.width), std::move(made)).first->second;
  }
};

ImageInputs::ImageInputs(const DatasetConfig& config, const SampleSpec& spec)
    : workshop_(std::make_unique<Workshop>(Workshop{
          .configs = config.eval_transforms ? *config.eval_transforms : config.transforms,
          .wanted = {.height = spec.input_shape[1], .width = spec.input_shape[2], .channels = spec.input_shape[0]}})) {}

ImageInputs::~ImageInputs() = default;

at::Tensor ImageInputs::read(std::string_view bytes, std::string_view name) {
  Image& image = workshop_->scratch.image;
  image = decode({.bytes = std::as_bytes(std::span(bytes)), .name = name});
  if (workshop_->wanted.channels == 1) make_grey(image);
  const ImageShape given{.height = image.height, .width = image.width, .channels = image.channels};
  const Transforms& transforms = workshop_->transforms_of(given, name);
  const ImageShape& shape = workshop_->wanted;
  const at::Tensor pixels = at::empty({shape.height, shape.width, shape.channels}, at::kFloat);
  transforms.apply(workshop_->scratch, runtime::Random(0), pixels.mutable_data_ptr());
  return pixels.permute({2, 0, 1});
}

}  // namespace trainctl::dataset
