#include "dataset/image/transform/resample.h"

#include <cstdlib>

#include "dataset/image/transform/crop_resize.h"
#include "support/reference.h"
#include "support/small_files.h"

namespace trainctl::dataset::image_resample_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace {

Image image_of(const at::Tensor& pixels) {
  Image image;
  image.resize(pixels.size(0), pixels.size(1), pixels.size(2));
  std::memcpy(image.bytes.data(), pixels.data_ptr(), image.size());
  return image;
}

struct Difference {
  int largest = 0;
  double mean = 0;
};

Difference difference(const Image& image, const Image& expected) {
  Difference found;
  REQUIRE(image.size() == expected.size());
  for (std::size_t i = 0; i < image.size(); ++i) {
    const int apart = std::abs(image.bytes[i] - expected.bytes[i]);
    found.largest = std::max(found.largest, apart);
    found.mean += apart;
  }
  found.mean /= static_cast<double>(image.size());
  return found;
}

Box box_of(const Region& region) {
  return {static_cast<double>(region.top), static_cast<double>(region.left), static_cast<double>(region.height),
          static_cast<double>(region.width)};
}

}  // namespace

TEST_CASE("resized pixels are within one level of torchvision's", "[dataset]") {
  const auto tensors = reference("images.py", "resize");
  Resampler resampler;
  Image output;
  for (const char* photo : {"china", "flower"}) {
    const Image image = image_of(tensors.at(std::string(photo) + ".image"));
    for (const auto& [name, plan] : tensors) {
      if (!name.starts_with(photo) || !name.ends_with(".plan")) continue;
      INFO(name);
      const auto* p = static_cast<const std::int64_t*>(plan.data_ptr());
      resample(image, {box_of({p[0], p[1], p[2], p[3]}), p[4], p[5], {0, 0, p[4], p[5]}}, resampler, output);
      const Difference found = difference(output, image_of(tensors.at(name.substr(0, name.size() - 4) + "pixels")));
      CHECK(found.largest <= 1);
      CHECK(found.mean < 0.25);
    }
  }
}

TEST_CASE("a part of a resized image is what the whole one has there", "[dataset]") {
  Image image;
  image.resize(97, 131);
  for (std::size_t i = 0; i < image.size(); ++i) image.bytes[i] = static_cast<std::uint8_t>(runtime::mix(i));
  Resampler resampler;
  Image part;
  for (const auto& [height, width] : {std::pair(40, 60), std::pair(200, 333), std::pair(97, 131), std::pair(5, 3)}) {
    const Image whole = resize(image, height, width);
    runtime::Random random(static_cast<std::uint64_t>(height));
    for (int i = 0; i < 20; ++i) {
      Region region;
      region.height = 1 + random.below(height);
      region.width = 1 + random.below(width);
      region.top = random.below(height - region.height + 1);
      region.left = random.below(width - region.width + 1);
      resample(image, {{0, 0, 97, 131}, height, width, region}, resampler, part);
      for (std::int64_t y = 0; y < region.height; ++y)
        REQUIRE(std::memcmp(part.row(y), whole.row(region.top + y) + 3 * region.left,
                            static_cast<std::size_t>(part.row_bytes())) == 0);
    }
  }
}

TEST_CASE("grey and four-channel images are resized as each of their channels", "[dataset]") {
  Image grey;
  grey.resize(50, 70, 1);
  for (std::size_t i = 0; i < grey.size(); ++i) grey.bytes[i] = static_cast<std::uint8_t>(runtime::mix(i));
  for (const std::int64_t channels : {3, 4}) {
    Image many;
    many.resize(50, 70, channels);
    for (std::size_t i = 0; i < grey.size(); ++i)
      for (std::int64_t c = 0; c < channels; ++c)
        many.bytes[i * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)] = grey.bytes[i];
    const Image small_grey = resize(grey, 21, 33);
    const Image small_many = resize(many, 21, 33);
    for (std::size_t i = 0; i < small_many.size(); ++i)
      REQUIRE(small_many.bytes[i] == small_grey.bytes[i / static_cast<std::size_t>(channels)]);
  }
}

TEST_CASE("an even image stays even at any size", "[dataset]") {
  Image image;
  image.resize(123, 45);
  for (const int level : {0, 1, 127, 255}) {
    std::fill(image.bytes.begin(), image.bytes.end(), static_cast<std::uint8_t>(level));
    for (const auto& [height, width] : {std::pair(1, 1), std::pair(31, 200), std::pair(400, 7)}) {
      const Image resized = resize(image, height, width);
      for (const std::uint8_t byte : resized.pixels()) REQUIRE(byte == level);
    }
  }
}

TEST_CASE("resize keeps proportions as torchvision does", "[dataset]") {
  const auto size = [](const ResizeConfig& config, std::int64_t height, std::int64_t width) {
    return resized(config, {height, width});
  };
  CHECK(size({.size = 256}, 427, 640) == ImageSize{256, 383});
  CHECK(size({.size = 256}, 640, 427) == ImageSize{383, 256});
  CHECK(size({.size = 256}, 300, 300) == ImageSize{256, 256});
  CHECK(size({.size = 256, .max_size = 300}, 427, 640) == ImageSize{200, 300});
  CHECK(size({.size = 256, .max_size = 500}, 427, 640) == ImageSize{256, 383});
  CHECK(size({.size = 10, .width = 20}, 427, 640) == ImageSize{10, 20});
}

TEST_CASE("random crops have the area and ratio asked for, or are in the middle", "[dataset]") {
  const RandomResizedCropConfig config{.scale = {0.1, 0.5}, .ratio = {0.8, 1.25}};
  double area = 0;
  for (std::uint64_t key = 0; key < 2000; ++key) {
    runtime::Random random(key);
    const Region crop = draw_crop(config, {400, 500}, random);
    REQUIRE(crop.top >= 0);
    REQUIRE(crop.left >= 0);
    REQUIRE(crop.top + crop.height <= 400);
    REQUIRE(crop.left + crop.width <= 500);
    const double share = static_cast<double>(crop.height * crop.width) / 200'000;
    REQUIRE(share > 0.098);
    REQUIRE(share < 0.502);
    const double ratio = static_cast<double>(crop.width) / static_cast<double>(crop.height);
    REQUIRE(ratio > 0.78);
    REQUIRE(ratio < 1.28);
    area += share / 2000;
  }
  CHECK(std::abs(area - 0.3) < 0.01);
  runtime::Random random(1);
  const Region strip = draw_crop({.scale = {1, 1}, .ratio = {0.75, 4.0 / 3}}, {10, 1000}, random);
  CHECK(strip == Region{0, 493, 10, 13});
}

}  // namespace trainctl::dataset::image_resample_test
