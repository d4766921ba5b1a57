#include "dataset/image/transform/transform.h"

#include <cmath>
#include <cstdlib>

#include "support/small_files.h"

namespace trainctl::dataset::transform_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

std::vector<std::uint8_t> numbered(const ImageShape& shape) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.bytes()));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(1 + runtime::mix(i) % 255);
  return bytes;
}

std::vector<float> apply(const std::vector<TransformConfig>& configs, const ImageShape& shape, std::uint64_t key,
                         Phase phase = Phase::training) {
  ImageScratch scratch;
  scratch.image = {shape.height, shape.width, shape.channels, numbered(shape)};
  std::vector<float> values(static_cast<std::size_t>(shape.bytes()), -1);
  Transforms(configs, shape, phase).apply(scratch, runtime::Random(key), values.data());
  return values;
}

std::vector<float> by_255(const std::vector<std::uint8_t>& bytes) {
  std::vector<float> values;
  for (const std::uint8_t byte : bytes) values.push_back(static_cast<float>(byte) / 255.0F);
  return values;
}

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-6F) return false;
  return a.size() == b.size();
}

std::uint8_t pixel(const std::vector<std::uint8_t>& image, const ImageShape& shape, std::int64_t y, std::int64_t x,
                   std::int64_t c) {
  if (y < 0 || y >= shape.height || x < 0 || x >= shape.width) return 0;
  return image[static_cast<std::size_t>((y * shape.width + x) * shape.channels + c)];
}

std::vector<std::uint8_t> moved(
    const ImageShape& shape,
    const std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t, std::int64_t)>& from) {
  const std::vector<std::uint8_t> image = numbered(shape);
  std::vector<std::uint8_t> result;
  for (std::int64_t y = 0; y < shape.height; ++y)
    for (std::int64_t x = 0; x < shape.width; ++x)
      for (std::int64_t c = 0; c < shape.channels; ++c)
        result.push_back(pixel(image, shape, from(y, x).first, from(y, x).second, c));
  return result;
}

const std::vector<ImageShape> kShapes = {
    {.height = 28, .width = 28, .channels = 1}, {.height = 32, .width = 32, .channels = 3},
    {.height = 5, .width = 7, .channels = 1},   {.height = 1, .width = 1, .channels = 3},
    {.height = 9, .width = 6, .channels = 4},   {.height = 33, .width = 17, .channels = 2}};

}  // namespace

TEST_CASE("without transforms a pixel becomes its 255th part", "[dataset]") {
  for (const ImageShape& shape : kShapes) CHECK(near(apply({}, shape, 1), by_255(numbered(shape))));
}

TEST_CASE("normalize subtracts the mean and divides by the deviation of each channel", "[dataset]") {
  for (const ImageShape& shape : kShapes) {
    NormalizeConfig config{.mean = {}, .std = {}};
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      config.mean.push_back(0.4 + 0.1 * static_cast<double>(c));
      config.std.push_back(0.2 + 0.05 * static_cast<double>(c));
    }
    const std::vector<std::uint8_t> image = numbered(shape);
    const std::vector<float> values = apply({config}, shape, 1);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const std::size_t c = i % static_cast<std::size_t>(shape.channels);
      const double expected = (image[i] / 255.0 - config.mean[c]) / config.std[c];
      REQUIRE(std::abs(values[i] - expected) < 5e-7);  // an ulp of the largest intermediate value
    }
  }
}

TEST_CASE("one mean and deviation serve all channels, another count is refused", "[dataset]") {
  const ImageShape shape{.height = 2, .width = 2, .channels = 3};
  CHECK(apply({NormalizeConfig{.mean = {0.3}, .std = {0.7}}}, shape, 1) ==
        apply({NormalizeConfig{.mean = {0.3, 0.3, 0.3}, .std = {0.7, 0.7, 0.7}}}, shape, 1));
  CHECK_THAT(error_of([&] {
               apply({NormalizeConfig{.mean = {0.3, 0.3}, .std = {1}}}, shape, 1);
             }),
             Contains("mean has 2 values, but the images have 3 channels"));
  CHECK_THAT(error_of([&] {
               apply({NormalizeConfig{.mean = {0.3}, .std = {1, 1, 1, 1}}}, shape, 1);
             }),
             Contains("std has 4 values"));
}

TEST_CASE("flips turn the image round and leave half of them alone", "[dataset]") {
  for (const ImageShape& shape : kShapes) {
    const auto across = by_255(moved(shape, [&](auto y, auto x) { return std::pair(y, shape.width - 1 - x); }));
    const auto over = by_255(moved(shape, [&](auto y, auto x) { return std::pair(shape.height - 1 - y, x); }));
    CHECK(near(apply({RandomHorizontalFlipConfig{.p = 1}}, shape, 3), across));
    CHECK(near(apply({RandomVerticalFlipConfig{.p = 1}}, shape, 3), over));
    CHECK(near(apply({RandomHorizontalFlipConfig{.p = 0}}, shape, 3), by_255(numbered(shape))));
    CHECK(apply({RandomHorizontalFlipConfig{.p = 1}, NormalizeConfig{}}, shape, 3) ==
          apply({NormalizeConfig{}, RandomHorizontalFlipConfig{.p = 1}}, shape, 3));
  }
  const ImageShape shape{.height = 1, .width = 2, .channels = 1};
  const auto original = by_255(numbered(shape));
  int flipped = 0;
  for (std::uint64_t key = 0; key < 2000; ++key)
    flipped += near(apply({RandomHorizontalFlipConfig{}}, shape, key), original) ? 0 : 1;
  CHECK(std::abs(flipped - 1000) < 120);
}

TEST_CASE("flips give the same image whether other transforms follow or not", "[dataset]") {
  const ImageShape shape{.height = 7, .width = 10, .channels = 3};
  const CenterCropConfig all{.size = 7, .width = 10};
  for (std::uint64_t key = 0; key < 20; ++key) {
    const std::vector<TransformConfig> last{RandomCropConfig{.padding = 3}, RandomHorizontalFlipConfig{},
                                            RandomVerticalFlipConfig{}};
    std::vector<TransformConfig> followed = last;
    followed.emplace_back(all);
    CHECK(apply(followed, shape, key) == apply(last, shape, key));
    const std::vector<TransformConfig> twice{RandomVerticalFlipConfig{.p = 1}, all, RandomVerticalFlipConfig{.p = 1}};
    CHECK(apply(twice, shape, key) == apply({all}, shape, key));
  }
}

TEST_CASE("a random crop is one of the image's shifts, each as likely", "[dataset]") {
  for (const ImageShape& shape : kShapes) {
    constexpr std::int64_t kPadding = 2;
    std::vector<std::vector<float>> shifts;
    for (std::int64_t down = -kPadding; down <= kPadding; ++down)
      for (std::int64_t right = -kPadding; right <= kPadding; ++right)
        shifts.push_back(by_255(moved(shape, [&](auto y, auto x) { return std::pair(y + down, x + right); })));
    std::vector<int> counts(shifts.size());
    for (std::uint64_t key = 0; key < 500; ++key) {
      const auto cropped = apply({RandomCropConfig{.padding = kPadding}}, shape, key);
      const auto found =
          std::find_if(shifts.begin(), shifts.end(), [&](const auto& shift) { return near(shift, cropped); });
      REQUIRE(found != shifts.end());
      ++counts[static_cast<std::size_t>(found - shifts.begin())];
    }
    if (shape.width > 2 * kPadding && shape.height > 2 * kPadding)
      for (const int count : counts) CHECK((count > 2 && count < 50));  // 20 expected
  }
}

TEST_CASE("what a crop left away doesn't come back as padding", "[dataset][regression]") {
  const ImageShape shape{.height = 10, .width = 10, .channels = 1};
  const std::vector<TransformConfig> cropped{CenterCropConfig{.size = 6}};
  std::vector<TransformConfig> moved = cropped;
  moved.emplace_back(RandomCropConfig{.padding = 2});
  std::vector<TransformConfig> grown = cropped;
  grown.emplace_back(CenterCropConfig{.size = 8});
  const std::vector<float> inside = apply(cropped, shape, 1);
  for (std::uint64_t key = 0; key < 50; ++key)
    for (const std::vector<TransformConfig>& transforms : {moved, grown})
      for (const float value : apply(transforms, shape, key))
        CHECK((value == 0 || std::find(inside.begin(), inside.end(), value) != inside.end()));
}

TEST_CASE("a crop with more padding than image may be all black", "[dataset]") {
  const ImageShape shape{.height = 3, .width = 2, .channels = 3};
  int black = 0;
  for (std::uint64_t key = 0; key < 200; ++key)
    black += apply({RandomCropConfig{.padding = 20}}, shape, key) == std::vector<float>(18, 0.0F) ? 1 : 0;
  CHECK(black > 150);
}

TEST_CASE("random erasing fills a rectangle of the area and ratio asked for, as often as asked", "[dataset]") {
  const ImageShape shape{.height = 40, .width = 50, .channels = 3};
  const RandomErasingConfig config{.p = 0.4, .scale = {0.05, 0.2}, .ratio = {0.5, 2}, .value = 7};
  int erased = 0;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    const auto values = apply({config}, shape, key);
    std::int64_t top = shape.height, bottom = -1, left = shape.width, right = -1, count = 0;
    for (std::int64_t y = 0; y < shape.height; ++y)
      for (std::int64_t x = 0; x < shape.width; ++x) {
        if (values[static_cast<std::size_t>((y * shape.width + x) * 3)] != 7) continue;
        for (std::int64_t c = 1; c < 3; ++c)
          REQUIRE(values[static_cast<std::size_t>((y * shape.width + x) * 3 + c)] == 7);
        top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x), right = std::max(right, x),
        ++count;
      }
    if (count == 0) continue;
    ++erased;
    const auto height = static_cast<double>(bottom - top + 1);
    const auto width = static_cast<double>(right - left + 1);
    REQUIRE(static_cast<double>(count) == height * width);
    const double slack = (height + width) / 2 + 1;  // both sides are rounded
    REQUIRE(height * width > 0.05 * 2000 - slack);
    REQUIRE(height * width < 0.2 * 2000 + slack);
    REQUIRE((height + 0.5) / (width - 0.5) > 0.5);
    REQUIRE((height - 0.5) / (width + 0.5) < 2);
  }
  CHECK(std::abs(erased - 400) < 80);
}

TEST_CASE("erasing that never fits leaves the image alone", "[dataset]") {
  const ImageShape shape{.height = 4, .width = 4, .channels = 1};
  CHECK(
      near(apply({RandomErasingConfig{.p = 1, .scale = {1, 1}, .ratio = {1, 1}}}, shape, 5), by_255(numbered(shape))));
}

TEST_CASE("evaluation crops the middle of random_resized_crop's size, and nothing beyond the image", "[dataset]") {
  const auto resize_of = [](const RandomResizedCropConfig& crop) {
    const std::vector<TransformConfig> kept = without_randomness({crop, RandomHorizontalFlipConfig{}});
    REQUIRE(kept.size() == 2);
    CHECK(kept[1].get_if<CenterCropConfig>()->size == crop.size);
    return *kept[0].get_if<ResizeConfig>();
  };
  CHECK(resize_of({.size = 224}).size == 256);
  CHECK_FALSE(resize_of({.size = 224, .width = 224}).width);
  const ResizeConfig wide = resize_of({.size = 112, .width = 224});
  CHECK(wide.size == 128);
  CHECK(wide.width == 256);
}

TEST_CASE("evaluation only normalises", "[dataset]") {
  const ImageShape shape{.height = 8, .width = 8, .channels = 3};
  const std::vector<TransformConfig> all = {RandomCropConfig{}, RandomHorizontalFlipConfig{.p = 1},
                                            RandomVerticalFlipConfig{.p = 1}, NormalizeConfig{},
                                            RandomErasingConfig{.p = 1}};
  CHECK(apply(all, shape, 1, Phase::evaluation) == apply({NormalizeConfig{}}, shape, 1));
}

TEST_CASE("transforms in an order that can't be kept are refused by name", "[dataset]") {
  const ImageShape shape{.height = 8, .width = 8, .channels = 3};
  const auto error = [&](const std::vector<TransformConfig>& configs) {
    return error_of([&] { apply(configs, shape, 1); });
  };
  CHECK_THAT(error({NormalizeConfig{}, RandomCropConfig{}}), Contains("random_crop must stand before normalize"));
  CHECK_THAT(error({NormalizeConfig{}, NormalizeConfig{}}), Contains("normalize stands twice"));
  CHECK_THAT(error({RandomErasingConfig{}, NormalizeConfig{}}), Contains("normalize must stand before random_erasing"));
  CHECK_THAT(error({RandomErasingConfig{}, RandomHorizontalFlipConfig{}}),
             Contains("random_horizontal_flip must stand before random_erasing"));
  CHECK_THAT(error({RandomErasingConfig{.scale = {0.3, 0.1}}}),
             Contains("scale must be two numbers, the smaller first, got [0.3, 0.1]"));
  CHECK_THAT(error({RandomErasingConfig{.ratio = {1}}}), Contains("ratio must be two numbers"));
}

}  // namespace trainctl::dataset::transform_test
