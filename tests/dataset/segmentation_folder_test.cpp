#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "dataset/dataset.h"
#include "dataset/image/codec/class_mask.h"
#include "dataset/shown_sample.h"
#include "dataset/small_images.h"
#include "support/small_files.h"

namespace trainctl::dataset::segmentation_folder_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kHeight = 12;
constexpr std::int64_t kWidth = 20;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the class of a pixel: class 1 right of a column, and a row without a class.
std::uint8_t class_at(std::int64_t row, std::int64_t column, std::int64_t edge) {
  return row == kHeight - 1 ? 255 : column >= edge ? 1 : 0;
}

ClassMask mask_of(std::int64_t edge) {
  ClassMask mask{.height = kHeight, .width = kWidth};
  for (std::int64_t y = 0; y < kHeight; ++y)
    for (std::int64_t x = 0; x < kWidth; ++x) mask.classes.push_back(class_at(y, x, edge));
  return mask;
}
/// Returns the image of a mask: black left of the column, bright right of it, in every row.
std::string image_of(std::int64_t edge) {
  at::Tensor numbers = at::zeros({kHeight, kWidth}, at::kByte);
  numbers.narrow(1, edge, kWidth - edge).fill_(38);  // a bright color of the palette
  return mask_file_of(numbers);
}

DatasetConfig pairs(const TemporaryDirectory& directory, int count) {
  for (const char* folder : {"images/a", "masks/a"}) std::filesystem::create_directories(directory.path() / folder);
  for (int i = 0; i < count; ++i) {
    directory.write("images/a/" + std::to_string(i) + ".png", image_of(4 + i));
    directory.write("masks/a/" + std::to_string(i) + ".png", text_of(encode_class_mask(mask_of(4 + i))));
  }
  SegmentationFolderConfig source;
  source.train = {.images = (directory.path() / "images").string(), .masks = (directory.path() / "masks").string()};
  source.class_names = {"left", "right"};
  DatasetConfig config;
  config.source = source;
  config.batch_size = 4;
  return config;
}

/// Checks that each pixel with a class is dark in class 0 and bright in class 1, beside pixels of a color between both,
/// and images of one color. Returns how many pixels have a class.
std::int64_t check_aligned(const Batch& batch) {
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const at::Tensor levels = batch.inputs[i].mean(0);  // [H, W]
    const at::Tensor& classes = batch.targets[i];
    const at::Tensor inside = levels.masked_select(classes.ge(0));
    const float low = inside.min().item<float>();
    const float high = inside.max().item<float>();
    if (high - low < 0.2F) continue;
    const at::Tensor known = classes.ge(0).logical_and(levels.sub((low + high) / 2).abs().gt(0.05F * (high - low)));
    const at::Tensor wrong = levels.gt((low + high) / 2).ne(classes.eq(1)).logical_and(known);
    CHECK(wrong.sum().item<std::int64_t>() == 0);
  }
  return batch.targets.ge(0).sum().item<std::int64_t>();
}

}  // namespace

TEST_CASE("masks give the class of each pixel, and none for the ignored number", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = pairs(directory, 3);
  config.transforms = {ResizeConfig{.size = kHeight, .width = kWidth}};
  const Datasets data = build(config, {});
  CHECK(data.train->spec().targets == Targets::class_masks);
  CHECK(data.train->spec().num_classes == 2);
  const std::optional<Batch> batch = data.train->next();
  REQUIRE(batch->targets.sizes() == at::IntArrayRef({3, kHeight, kWidth}));
  CHECK(batch->targets.select(1, kHeight - 1).eq(-100).all().item<bool>());
  CHECK(check_aligned(*batch) == 3 * (kHeight - 1) * kWidth);
}

TEST_CASE("a mask moves as its image does", "[dataset]") {
  const TemporaryDirectory directory;
  const RandomResizedCropConfig crop{.size = 16, .width = 24, .scale = {0.3, 1}, .ratio = {0.5, 2}};
  const std::vector<std::vector<TransformConfig>> all = {
      {ResizeConfig{.size = 24, .width = 40}, RandomHorizontalFlipConfig{}},
      {ResizeConfig{.size = 6, .width = 40}, RandomHorizontalFlipConfig{.p = 1}, RandomVerticalFlipConfig{.p = 1}},
      {crop, RandomHorizontalFlipConfig{}, ColorJitterConfig{.brightness = 0.2},
       NormalizeConfig{.mean = {0}, .std = {1}}},
      {ColorJitterConfig{.contrast = 0.2}, RandomVerticalFlipConfig{}, crop},
      {CenterCropConfig{.size = 30, .width = 10}, RandomHorizontalFlipConfig{}},
      {ResizeConfig{.size = kHeight, .width = kWidth}, RandomCropConfig{.padding = 3}, RandomHorizontalFlipConfig{}},
  };
  DatasetConfig config = pairs(directory, 8);
  for (const std::vector<TransformConfig>& transforms : all) {
    config.transforms = transforms;
    for (const bool cached : {false, true}) {
      config.image_cache.size_mib = cached ? 1 : 0;
      const Datasets data = build(config, {.seed = 5, .workers = 2});
      for (int epoch = 0; epoch < 3; ++epoch)
        while (const std::optional<Batch> batch = data.train->next()) CHECK(check_aligned(*batch) > 0);
    }
  }
}

TEST_CASE("masks of one to eight bits and of palettes are read as numbers", "[dataset]") {
  ClassMask mask{.height = 1, .width = 3, .classes = {0, 7, 255}};
  const std::string file = text_of(encode_class_mask(mask));
  const ClassMask back = decode_class_mask({.bytes = std::as_bytes(std::span(file)), .name = "m.png"});
  CHECK(back.classes == mask.classes);
  CHECK(color_of_class(1).red == 128);  // PASCAL VOC: aeroplane
  CHECK(color_of_class(15).blue == 128);
  const std::string photo = jpeg(3);
  CHECK_THAT(error_of([&] { decode_class_mask({.bytes = std::as_bytes(std::span(photo)), .name = "m.jpg"}); }),
             Contains("m.jpg") && Contains("a mask is a PNG file"));
}

TEST_CASE("a mask that is missing, of another size or of unknown classes is named", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = pairs(directory, 2);
  config.transforms = {ResizeConfig{.size = 8, .width = 8}};
  const auto failure = [&] {
    return error_of([&] {
      const Datasets data = build(config, {});
      while (data.train->next()) {
      }
    });
  };
  ClassMask small{.height = 2, .width = 3, .classes = {0, 0, 0, 0, 0, 0}};
  directory.write("masks/a/1.png", text_of(encode_class_mask(small)));
  CHECK_THAT(failure(), Contains("masks/a/1.png: the mask has 3×2 pixels, and its image 20×12"));
  ClassMask wrong = mask_of(5);
  wrong.classes[kWidth + 2] = 9;
  directory.write("masks/a/1.png", text_of(encode_class_mask(wrong)));
  CHECK_THAT(failure(), Contains("masks/a/1.png: the pixel in row 1, column 2 has class 9; expected a number below 2"));
  config.on_bad_sample = OnBadSample::skip;
  CHECK(failure() == "no error");
  std::filesystem::remove(directory.path() / "masks/a/1.png");
  CHECK_THAT(failure(), Contains("there is no mask") && Contains("masks/a/1.png") && Contains("images/a/1.png"));
}

TEST_CASE("evaluation has a set of its own, or a part of the training images", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = pairs(directory, 8);
  config.transforms = {ResizeConfig{.size = 8, .width = 8}};
  auto& source = std::get<SegmentationFolderConfig>(config.source.value);
  source.eval = source.train;
  CHECK(build(config, {}).eval->num_samples() == 8);
  source.eval.reset();
  source.eval_fraction = 0.4;
  const Datasets split = build(config, {});
  CHECK(split.train->num_samples() + split.eval->num_samples() == 8);
  source.eval_fraction = 0;
  config.fold = FoldConfig{.count = 4, .index = 1};
  CHECK(build(config, {}).eval->num_samples() == 2);
}

}  // namespace trainctl::dataset::segmentation_folder_test
