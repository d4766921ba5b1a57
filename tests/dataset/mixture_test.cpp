#include <ATen/ops/equal.h>

#include <cmath>
#include <map>

#include "dataset/dataset.h"
#include "dataset/sampler/interleave.h"
#include "dataset/sampler/split.h"
#include "support/small_files.h"

namespace trainctl::dataset::mixture_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

/// How far the counts of the first N are from N × share, at most.
double worst_prefix(const Mixing& mixing, const std::vector<double>& shares, std::int64_t length) {
  std::vector<double> counts(shares.size());
  double worst = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    const Mixing::Turn turn = mixing.at(t);
    REQUIRE(static_cast<double>(turn.rank) == counts[turn.source]);
    counts[turn.source] += 1;
    for (std::size_t i = 0; i < shares.size(); ++i)
      worst = std::max(worst, std::abs(counts[i] - shares[i] * static_cast<double>(t + 1)));
  }
  return worst;
}

/// The same over all windows.
double worst_window(const Mixing& mixing, const std::vector<double>& shares, std::int64_t length) {
  double worst = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    double lowest = 0;
    double highest = 0;
    double lag = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      lag += (mixing.at(t).source == i ? 1.0 : 0.0) - shares[i];
      lowest = std::min(lowest, lag);
      highest = std::max(highest, lag);
    }
    worst = std::max(worst, highest - lowest);
  }
  return worst;
}

std::vector<double> shares_of(std::vector<double> weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight /= sum;
  return weights;
}

SyntheticImagesConfig images(std::int64_t samples, std::int64_t eval_samples = 0) {
  return {.num_samples = samples,
          .num_eval_samples = eval_samples,
          .channels = 1,
          .height = 2,
          .width = 2,
          .num_classes = 2};
}

DatasetConfig mixture_of(std::vector<MixturePart> parts) {
  DatasetConfig config;
  MixtureConfig mixture;
  mixture.sources = std::move(parts);
  config.source = mixture;
  config.batch_size = 10;
  config.num_workers = 1;
  return config;
}

}  // namespace

TEST_CASE("a mixture's proportions hold from the beginning to within one, anywhere to within two", "[dataset]") {
  const std::vector<std::vector<double>> cases = {{1},
                                                  {1, 1},
                                                  {0.7, 0.2, 0.1},
                                                  {1, 2, 3, 4, 5},
                                                  {0.9, 0.1},
                                                  {3, 3, 3, 1},
                                                  {1, 1000},
                                                  {0.333, 0.333, 0.334},
                                                  {5, 0.5},
                                                  {0.1, 0.1, 0.05},
                                                  {7, 11, 13, 17, 19, 23}};
  for (const auto& weights : cases) {
    const Mixing mixing(weights);
    const std::vector<double> shares = shares_of(weights);
    CHECK(worst_prefix(mixing, shares, 20'000) < 1 + 1e-6);
    CHECK(worst_window(mixing, shares, 20'000) < 2 + 1e-6);
    if (weights.size() == 2) CHECK(worst_window(mixing, shares, 20'000) <= 1 + 1e-6);
  }
  const std::vector<double> odd = {std::sqrt(2.0), std::exp(1.0), std::log(3.0)};
  const Mixing mixing(odd);
  CHECK(mixing.period() == 1 << 20);
  CHECK(worst_prefix(mixing, shares_of(odd), 100'000) < 1.2);
  for (const std::int64_t position : {0, 1, 77, 1 << 20, (1 << 20) + 5})
    CHECK(mixing.count_before(0, position) + mixing.count_before(1, position) + mixing.count_before(2, position) ==
          position);
  CHECK_THROWS_AS(Mixing(std::vector<double>{1, 0}), core::Error);
}

TEST_CASE("a mixture goes through each source as a whole before it begins it again", "[dataset]") {
  DatasetConfig config = mixture_of({{.weight = 3, .source = images(30)}, {.weight = 1, .source = images(50)}});
  const Datasets data = build(config, {.seed = 3});
  CHECK(data.train->num_samples() == 80);
  CHECK(data.eval == nullptr);
  std::map<std::vector<float>, int> seen;
  for (int epoch = 0; epoch < 5; ++epoch)
    while (std::optional<Batch> batch = data.train->next())
      for (std::int64_t i = 0; i < batch->size(); ++i) {
        const at::Tensor row = batch->inputs.select(0, i).contiguous();
        ++seen[{row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel()}];
      }
  // 300 samples of the 30, ten times each, and 100 of the 50, twice; of which 30 are the same images.
  std::map<int, int> images_seen;
  for (const auto& [image, count] : seen) ++images_seen[count];
  CHECK(images_seen == std::map<int, int>{{12, 30}, {2, 20}});
}

TEST_CASE("a mixture goes on from any position, with any number of workers", "[dataset]") {
  const auto config = mixture_of({{.weight = 2, .source = images(17)}, {.weight = 1, .source = images(40)}});
  const Datasets whole = build(config, {.seed = 3});
  std::vector<at::Tensor> batches;
  std::vector<Position> positions;
  for (int i = 0; i < 13; ++i) {
    positions.push_back(whole.train->position());
    const std::optional<Batch> batch = whole.train->next();
    batches.push_back(batch ? batch->inputs.clone() : at::Tensor());
  }
  for (std::size_t start : {0U, 3U, 7U, 12U}) {
    auto other = config;
    other.num_workers = 3;
    const Datasets resumed = build(other, {.seed = 3});
    resumed.train->seek(positions[start]);
    for (std::size_t i = start; i < batches.size(); ++i) {
      const std::optional<Batch> batch = resumed.train->next();
      REQUIRE(batch.has_value() == batches[i].defined());
      if (batch) REQUIRE(batch->inputs.equal(batches[i]));
    }
  }
}

TEST_CASE("a mixture evaluates on all its sources' evaluation sets, and refuses what doesn't fit together",
          "[dataset]") {
  const auto config = mixture_of({{.weight = 2, .source = images(17, 4)}, {.weight = 1, .source = images(40, 5)}});
  CHECK(build(config, {}).eval->num_samples() == 9);
  auto larger = images(10);
  larger.width = 3;
  CHECK_THAT(error_of([&] {
               build(mixture_of({{.source = images(10)}, {.source = larger}}), {});
             }),
             Contains("dataset.sources[1]") && Contains("shapes differ"));
  CHECK_THAT(error_of([&] {
               build(mixture_of({{.source = images(10)}, {.source = SyntheticTokensConfig{}}}), {});
             }),
             Contains("can't be mixed"));
}

TEST_CASE("sources that batches or the network would read alike, and aren't, can't be mixed", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const auto refusal = [&](const auto& first, const auto& second) {
    return error_of([&] { build(mixture_of({{.source = first}, {.source = second}}), {}); });
  };
  const TableConfig table{.train = {directory.write("a.csv", "x,label\n1,a\n2,b\n3,a\n")}};
  TableConfig other = table;
  other.train = {directory.write("b.csv", "x,label\n101,a\n102,b\n103,a\n")};
  CHECK_THAT(refusal(table, other), Contains("dataset.sources[1]") && Contains("means or deviations differ"));
  CHECK(refusal(table, table) == "no error");
  TextLmConfig text;
  text.train.files = {directory.write("a.txt", std::string(4000, 'a'))};
  text.tokenizer = "bytes";
  text.seq_len = 16;
  text.cache_dir = (directory.path() / "cache").string();
  TextLmConfig words = text;
  words.tokenizer = directory.write("vocab.txt", "[UNK]\na\n");
  CHECK_THAT(refusal(text, words), Contains("tokenizers differ"));
  ChatConfig chat;
  ChatConfig unpacked;
  unpacked.packing = Packing::none;
  CHECK_THAT(refusal(chat, unpacked), Contains("packings differ"));
}

TEST_CASE("a split by hash keeps its samples when others are added", "[dataset]") {
  const Split split{.eval_fraction = 0.2, .seed = 1};
  const Split other{.eval_fraction = 0.2, .seed = 2};
  int kept = 0;
  int differs = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t hash = key_hash("image/" + std::to_string(i));
    kept += split.keeps_for_evaluation(hash) ? 1 : 0;
    differs += split.keeps_for_evaluation(hash) != other.keeps_for_evaluation(hash) ? 1 : 0;
  }
  CHECK(std::abs(kept - 2000) < 160);
  CHECK(differs > 2500);
  // For good: these bits decide what runs were evaluated on.
  CHECK(key_hash("image/0") == key_hash("image/0"));
  CHECK_FALSE(Split{}.keeps_for_evaluation(0));
}

}  // namespace trainctl::dataset::mixture_test
