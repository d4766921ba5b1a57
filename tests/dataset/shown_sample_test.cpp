#include "dataset/shown_sample.h"

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include <cstring>

#include "core/base64.h"
#include "dataset/image/codec/decode.h"
#include "dataset/table/table_encoding.h"

namespace trainctl::dataset::shown_sample_test {
namespace {

/// Decodes the picture of a data URI.
Image picture(const std::string& uri) {
  const std::string bytes = core::from_base64(uri.substr(uri.find(',') + 1)).value();
  std::vector<std::byte> file(bytes.size());
  std::memcpy(file.data(), bytes.data(), bytes.size());
  return decode({.bytes = file, .name = "picture"});
}

TEST_CASE("a small picture has the pixels before the normalization", "[dataset]") {
  DatasetConfig config;
  config.transforms = {TransformConfig(NormalizeConfig{.mean = {0.5, 0.25, 0.1}, .std = {0.2, 0.5, 1}})};
  at::Tensor pixels = at::rand({3, 5, 7}).mul(255).round();
  at::Tensor normalized = pixels.div(255);
  const std::vector<double> mean{0.5, 0.25, 0.1}, std{0.2, 0.5, 1};
  for (std::int64_t c = 0; c < 3; ++c)
    normalized[c].sub_(mean[static_cast<std::size_t>(c)]).div_(std[static_cast<std::size_t>(c)]);
  const std::string uri = picture_of(normalized, config);
  CHECK(uri.starts_with("data:image/png;base64,"));
  const Image image = picture(uri);
  REQUIRE(image.height == 5);
  REQUIRE(image.width == 7);
  for (std::int64_t y = 0; y < 5; ++y)
    for (std::int64_t x = 0; x < 7; ++x)
      for (std::int64_t c = 0; c < 3; ++c) CHECK(image.row(y)[x * 3 + c] == pixels[c][y][x].item<int>());
}

TEST_CASE("a large picture is a small JPEG, and one of other channels is none", "[dataset]") {
  const DatasetConfig config;
  const std::string uri = picture_of(at::full({1, 400, 200}, 0.5), config);
  CHECK(uri.starts_with("data:image/jpeg;base64,"));
  CHECK(uri.size() < 4000);
  const Image image = picture(uri);
  CHECK(image.height == 160);
  CHECK(image.width == 80);
  CHECK(std::abs(int{image.row(80)[120]} - 128) < 3);
  CHECK(picture_of(at::full({4, 8, 8}, 0.5), config).empty());
  CHECK(picture_of(at::full({8}, 0.5), config).empty());
}

TEST_CASE("a row is shown by its columns, as they were before the encoding", "[dataset]") {
  auto encoding = std::make_shared<TableEncoding>();
  encoding->columns = {
      {.name = "age", .kind = ColumnKind::number, .mean = 40, .scale = 0.1},
      {.name = "income", .kind = ColumnKind::number, .bin_edges = {0, 10, 100, 1000}},
      {.name = "city", .kind = ColumnKind::category, .categories = {"Bonn", "Köln"}, .has_other = true},
      {.name = "day", .kind = ColumnKind::date, .mean = 19000, .scale = 0.01}};
  const SampleSpec spec{.input_shape = {encoding->width()}, .table = encoding};
  const auto shown = [&](std::vector<double> values) {
    std::vector<float> inputs(static_cast<std::size_t>(encoding->width()));
    encoding->encode(values, inputs.data());
    return columns_of(at::tensor(inputs), spec);
  };
  using Columns = std::vector<std::pair<std::string, std::string>>;
  CHECK(shown({39, 55, 1, 19508}) == Columns{{"age", "39"}, {"income", "55"}, {"city", "Köln"}, {"day", "2023-05-31"}});
  CHECK(shown({25, 2000, 2, 0}) ==
        Columns{{"age", "25"}, {"income", "2000"}, {"city", "other"}, {"day", "1970-01-01"}});
  CHECK(shown({25, -5, -1, 0})[1].second == "-5");
  CHECK(shown({25, -5, -1, 0})[2].second == "not seen in training");
  CHECK(columns_of(at::full({3}, 1.0), spec).empty());
}

}  // namespace
}  // namespace trainctl::dataset::shown_sample_test
