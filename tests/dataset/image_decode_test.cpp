#include <ATen/ops/from_blob.h>
#include <malloc.h>
#include <zlib.h>

#include <cstdlib>
#include <random>

#include "dataset/image/codec/decode.h"
#include "runtime/random.h"
#include "support/reference.h"
#include "support/small_files.h"

namespace trainctl::dataset::image_decode_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

/// Made once: it takes seconds.
const TensorMap& cases() {
  static const TensorMap tensors = reference("images.py", "decode");
  return tensors;
}

EncodedImage encoded(const at::Tensor& file, std::string_view name) {
  return {{static_cast<const std::byte*>(file.data_ptr()), static_cast<std::size_t>(file.numel())}, name};
}

int largest_difference(const Image& image, const at::Tensor& pixels) {
  REQUIRE(image.height == pixels.size(0));
  REQUIRE(image.width == pixels.size(1));
  REQUIRE(image.channels == 3);
  const auto* expected = static_cast<const std::uint8_t*>(pixels.data_ptr());
  int largest = 0;
  for (std::size_t i = 0; i < image.size(); ++i) largest = std::max(largest, std::abs(image.bytes[i] - expected[i]));
  return largest;
}

/// The files that Pillow read too, by name.
std::map<std::string, std::pair<at::Tensor, at::Tensor>> decoded_cases(const TensorMap& tensors) {
  std::map<std::string, std::pair<at::Tensor, at::Tensor>> cases;
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with(".file")) {
      const std::string stem = name.substr(0, name.size() - 5);
      cases[stem] = {tensor, tensors.at(stem + ".pixels")};
    }
  return cases;
}

struct Outcome {
  int equal = 0;
  int refused_by_both = 0;
  std::vector<std::string> refused_here_alone{};  // the reasons
};

/// Compares the pixels of each "NAME.file" with "NAME.pixels". A file without pixels must be refused.
Outcome compare_with_pillow(const TensorMap& tensors) {
  Outcome outcome;
  for (const auto& [key, file] : tensors) {
    if (!key.ends_with(".file")) continue;
    const std::string name = key.substr(0, key.size() - 5);
    INFO(name);
    const auto pixels = tensors.find(name + ".pixels");
    std::optional<Image> image;
    std::string problem;
    try {
      image = decode(encoded(file, name));
    } catch (const BadSample& error) {
      problem = error.what();
    }
    if (pixels == tensors.end()) {
      CHECK_FALSE(image.has_value());
      ++outcome.refused_by_both;
    } else if (image) {
      CHECK(largest_difference(*image, pixels->second) <= 2);
      if (const auto turned = tensors.find(name + ".orientation"); turned != tensors.end())
        CHECK(probe(encoded(file, name)).orientation == turned->second.item<std::int64_t>());
      ++outcome.equal;
    } else {
      outcome.refused_here_alone.push_back(problem);
    }
  }
  return outcome;
}

/// Pixel by pixel, whether the region of `whole` is where `box` says in `part`.
bool holds_region(const Image& whole, const Region& region, const Image& part, const Box& box) {
  const auto top = static_cast<std::int64_t>(box.top);
  const auto left = static_cast<std::int64_t>(box.left);
  for (std::int64_t y = 0; y < region.height; ++y)
    if (std::memcmp(whole.row(region.top + y) + 3 * region.left, part.row(top + y) + 3 * left,
                    static_cast<std::size_t>(3 * region.width)) != 0)
      return false;
  return true;
}

}  // namespace

TEST_CASE("images are decoded as Pillow's convert RGB does", "[dataset]") {
  const auto& tensors = cases();
  for (const auto& [name, both] : decoded_cases(tensors)) {
    INFO(name);
    const Image image = decode(encoded(both.first, name));
    // Libraries of other versions may round colours differently.
    CHECK(largest_difference(image, both.second) <= (name.starts_with("png") || name == "webp_lossless" ? 0 : 2));
  }
}

TEST_CASE("damaged and odd files are read where Pillow reads them, and refused where it refuses them",
          "[dataset][reference][regression]") {
  const Outcome outcome = compare_with_pillow(reference("images.py", "broken"));
  // Other formats, and files that torchvision refuses, too.
  for (const std::string& problem : outcome.refused_here_alone)
    CHECK_THAT(problem, Contains("not JPEG, PNG or WebP") || Contains("Premature end of JPEG file") ||
                            Contains("not what its checksum says"));
  CHECK(outcome.equal + outcome.refused_by_both > 500);
}

TEST_CASE("the images of Pillow's own tests are what Pillow reads, or are refused", "[dataset][reference]") {
  const Outcome outcome = compare_with_pillow(reference("images.py", "corpus"));
  std::string problems;
  for (const std::string& problem : outcome.refused_here_alone) problems += "\n  " + problem;
  WARN(outcome.equal << " equal, " << outcome.refused_by_both << " refused by both, "
                     << outcome.refused_here_alone.size() << " refused here alone:" << problems);
  CHECK(outcome.equal > 400);
}

TEST_CASE("headers tell size, channels, format and orientation", "[dataset]") {
  const auto& tensors = cases();
  const auto info = [&](const std::string& name) { return probe(encoded(tensors.at(name + ".file"), name)); };
  for (const char* name : {"jpeg_420", "png_rgba", "webp_lossy"}) {
    CHECK(info(name).width == 203);
    CHECK(info(name).height == 157);
  }
  CHECK(info("jpeg_420").format == ImageFormat::jpeg);
  CHECK(info("png_rgb").format == ImageFormat::png);
  CHECK(info("webp_lossy").format == ImageFormat::webp);
  CHECK(info("jpeg_grey").channels == 1);
  CHECK(info("jpeg_cmyk").channels == 4);
  CHECK(info("png_rgba").channels == 4);
  CHECK(info("png_palette").channels == 3);
  CHECK(info("jpeg_rotated").orientation == 6);
  CHECK(info("jpeg_420").orientation == 1);
}

TEST_CASE("a region is decoded to the very pixels that the whole image has there", "[dataset]") {
  const auto& tensors = cases();
  Decoder decoder;
  Image part;
  for (const auto& [name, both] : decoded_cases(tensors)) {
    const EncodedImage file = encoded(both.first, name);
    const Image whole = decode(file);
    runtime::Random random(runtime::key_of(name));
    for (int i = 0; i < 40; ++i) {
      Region region;
      region.height = 1 + random.below(whole.height);
      region.width = 1 + random.below(whole.width);
      region.top = random.below(whole.height - region.height + 1);
      region.left = random.below(whole.width - region.width + 1);
      INFO(name << " " << region.top << " " << region.left << " " << region.height << " " << region.width);
      decoder.open(file);
      const Box box = decoder.read({.region = region}, part);
      REQUIRE(holds_region(whole, region, part, box));
    }
  }
}

TEST_CASE("a JPEG that is shrunk anyway is decoded smaller, and says where the region lies", "[dataset]") {
  const auto& tensors = cases();
  const at::Tensor file = tensors.at("jpeg_large.file");
  Decoder decoder;
  Image whole;
  decoder.open(encoded(file, "large"));
  const Region all{.height = 427, .width = 640};
  Box box = decoder.read({all, 100, 150, DecodeScaling::automatic}, whole);
  CHECK(whole.height == 107);
  CHECK(whole.width == 160);
  CHECK(box.height == 427 / 4.0);
  Image part;
  const Region region{.top = 101, .left = 203, .height = 222, .width = 310};
  decoder.open(encoded(file, "large"));
  box = decoder.read({region, 50, 70, DecodeScaling::automatic}, part);
  CHECK(box.height == 222 / 4.0);
  CHECK(box.width == 310 / 4.0);
  const std::int64_t first = static_cast<std::int64_t>(101 / 4.0);
  const std::int64_t shift = static_cast<std::int64_t>(203 / 4.0 - box.left);
  for (std::int64_t y = 0; y < part.height; ++y)
    for (std::int64_t x = static_cast<std::int64_t>(box.left); x < static_cast<std::int64_t>(box.left + box.width); ++x)
      for (int c = 0; c < 3; ++c) REQUIRE(part.row(y)[3 * x + c] == whole.row(first + y)[3 * (x + shift) + c]);
  decoder.open(encoded(file, "large"));
  CHECK(decoder.read({all, 427, 640, DecodeScaling::automatic}, whole).height == 427);
}

TEST_CASE("what is no image, or no whole one, is a bad sample that names the file", "[dataset]") {
  const auto& tensors = cases();
  const auto refused = [&](const std::string& name) {
    return error_of([&] { decode(encoded(tensors.at(name + ".refused"), name + ".img")); });
  };
  CHECK_THAT(refused("gif"), Contains("gif.img: cannot be decoded: it is GIF, not JPEG, PNG or WebP"));
  CHECK_THAT(refused("bmp"), Contains("it is BMP"));
  CHECK_THAT(refused("tiff"), Contains("it is TIFF"));
  CHECK_THAT(refused("webp_animated"), Contains("webp_animated.img: animated WebP is not read"));
  CHECK_THAT(error_of([&] { decode({{}, "empty.jpg"}); }), Contains("empty.jpg: cannot be decoded: the file is empty"));
  for (const auto& [name, both] : decoded_cases(tensors)) {
    const EncodedImage file = encoded(both.first, name);
    for (std::size_t part = 1; part < 8; ++part) {
      const EncodedImage cut{file.bytes.first(file.bytes.size() * part / 8), "cut.img"};
      INFO(name << " cut at " << cut.bytes.size());
      CHECK_THAT(error_of([&] { decode(cut); }), Contains("cut.img: "));
    }
  }
}

TEST_CASE("the end of a JPEG is missed even where the region would not need it", "[dataset]") {
  const auto& tensors = cases();
  const EncodedImage file = encoded(tensors.at("jpeg_large.file"), "photo.jpg");
  Decoder decoder;
  CHECK_THAT(error_of([&] {
               decoder.open({file.bytes.first(file.bytes.size() - 2), "photo.jpg"});
             }),
             Contains("photo.jpg: the file ends after"));
}

TEST_CASE("damaged images are decoded or refused, never worse", "[dataset]") {
  const auto& tensors = cases();
  Decoder decoder;
  Image pixels;
  for (const auto& [name, both] : decoded_cases(tensors)) {
    if (name == "jpeg_large") continue;
    const EncodedImage file = encoded(both.first, name);
    runtime::Random random(runtime::key_of(name));
    int refused = 0;
    for (int i = 0; i < 60; ++i) {
      std::vector<std::byte> bytes(file.bytes.begin(), file.bytes.end());
      for (int k = 0; k < 3; ++k)
        bytes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size())))] =
            static_cast<std::byte>(random.below(256));
      try {
        const ImageInfo info = decoder.open({bytes, name});
        if (info.width * info.height > 1'000'000) continue;
        decoder.read({.region = {.height = info.height, .width = info.width}}, pixels);
      } catch (const BadSample&) {
        ++refused;
      }
    }
    CHECK(refused <= 60);
  }
}

TEST_CASE("a JPEG that repeats a scan again and again is refused", "[dataset][regression]") {
  const EncodedImage file = encoded(cases().at("jpeg_progressive.file"), "many.jpg");
  const std::string whole(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  const std::string scan = whole.substr(whole.rfind("\xff\xda"), whole.size() - 2 - whole.rfind("\xff\xda"));
  const auto with_scans = [&](int count) {
    std::string bytes = whole.substr(0, whole.size() - 2);
    for (int i = 0; i < count; ++i) bytes += scan;
    return bytes + whole.substr(whole.size() - 2);
  };
  const auto decoded = [](const std::string& bytes) { return decode({std::as_bytes(std::span(bytes)), "many.jpg"}); };
  CHECK(decoded(with_scans(50)).pixels().size() == decoded(whole).pixels().size());
  CHECK_THAT(error_of([&] { decoded(with_scans(200)); }), Contains("many.jpg: damaged JPEG: over 100 scans"));
}

TEST_CASE("texts in a PNG are not unpacked", "[dataset][regression]") {
  constexpr std::size_t kSignatureAndHeader = 33;
  const auto big_endian = [](std::size_t number) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xFFU);
    return bytes;
  };
  const std::string text(4'000'000, 'a');
  uLongf size = ::compressBound(text.size());
  std::string packed(size, '\0');
  REQUIRE(::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                     text.size()) == Z_OK);
  const std::string chunk = "zTXtkey" + std::string(2, '\0') + packed.substr(0, size);
  const uLong sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
  const EncodedImage file = encoded(cases().at("png_rgb.file"), "whole.png");
  std::string bytes(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  for (int i = 0; i < 8; ++i) bytes.insert(kSignatureAndHeader, big_endian(chunk.size() - 4) + chunk + big_endian(sum));
  const auto held = [] {
    const struct mallinfo2 memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  Decoder decoder;
  const std::size_t before = held();
  CHECK(decoder.open({std::as_bytes(std::span(bytes)), "texts.png"}).width == 203);
  CHECK(held() < before + text.size());
}

TEST_CASE("a JPEG that was written is read again", "[dataset]") {
  const auto& tensors = cases();
  const Image image = decode(encoded(tensors.at("jpeg_large.file"), "large"));
  const std::vector<std::byte> bytes = encode_jpeg(image, 95);
  CHECK(probe({bytes, "again"}).height == 427);
  double difference = 0;
  const Image again = decode({bytes, "again"});
  for (std::size_t i = 0; i < image.size(); ++i) difference += std::abs(image.bytes[i] - again.bytes[i]);
  CHECK(difference / static_cast<double>(image.size()) < 4);
}

}  // namespace trainctl::dataset::image_decode_test
