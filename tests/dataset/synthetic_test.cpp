#include <cstring>

#include "dataset/dataset.h"
#include "dataset/sources.h"
#include "support/small_files.h"

namespace trainctl::dataset::synthetic_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace {

std::vector<std::uint8_t> image(const Source& source, std::int64_t index) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(raw_samples(source).sample_bytes()));
  raw_samples(source).get(index, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

double distance(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return sum / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("synthetic images are a function of the index, and their class shows", "[dataset]") {
  const SyntheticImagesConfig config{
      .num_samples = 40, .num_eval_samples = 20, .channels = 3, .height = 17, .width = 23, .num_classes = 10};
  const Sources sources = build(config);
  const Sources again = build(config);
  REQUIRE(sources.train->size() == 40);
  REQUIRE(sources.eval->size() == 20);
  CHECK(sources.train->fingerprint() == again.train->fingerprint());
  for (std::int64_t i = 0; i < 40; ++i) CHECK(image(*sources.train, i) == image(*again.train, i));
  const auto first = image(*sources.train, 3);
  const double within = distance(first, image(*sources.train, 13));
  const double across = distance(first, image(*sources.train, 4));
  CHECK(within > 0);
  CHECK(across > 1.5 * within);
  CHECK(distance(first, image(*sources.eval, 3)) < 1.3 * within);
  CHECK(image(*sources.eval, 3) != first);
}

TEST_CASE("no evaluation samples mean no evaluation set", "[dataset]") {
  CHECK(build(SyntheticImagesConfig{.num_eval_samples = 0}).eval == nullptr);
  CHECK(build(SyntheticTokensConfig{.num_eval_samples = 0}).eval == nullptr);
}

TEST_CASE("synthetic tokens stay in the vocabulary and mostly follow from each other", "[dataset]") {
  const Sources sources =
      build(SyntheticTokensConfig{.num_samples = 50, .num_eval_samples = 1, .seq_len = 64, .vocab_size = 100});
  std::vector<std::vector<int>> followers(100, std::vector<int>(100));
  std::vector<std::int64_t> tokens(65);
  REQUIRE(raw_samples(*sources.train).sample_bytes() == 65 * 8);
  for (std::int64_t i = 0; i < 50; ++i) {
    raw_samples(*sources.train).get(i, reinterpret_cast<std::byte*>(tokens.data()));
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      REQUIRE((tokens[t] >= 0 && tokens[t] < 100));
      ++followers[static_cast<std::size_t>(tokens[t])][static_cast<std::size_t>(tokens[t + 1])];
    }
  }
  int usual = 0;
  for (const auto& row : followers) usual += *std::max_element(row.begin(), row.end());
  CHECK(usual > 50 * 64 * 8 / 10);
}

}  // namespace trainctl::dataset::synthetic_test
