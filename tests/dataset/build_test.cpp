#include <ATen/ops/equal.h>

#include <algorithm>

#include "dataset/dataset.h"
#include "dataset/sampler/sampler.h"
#include "support/small_files.h"

namespace trainctl::dataset::build_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

DatasetConfig idx_config(const TemporaryDirectory& directory) {
  DatasetConfig config;
  config.source = IdxConfig{
      .train = write_idx(directory, "train", 21), .eval = write_idx(directory, "eval", 10), .num_classes = {}};
  config.batch_size = 4;
  config.transforms = {NormalizeConfig{.mean = {0.25}, .std = {0.5}}};
  return config;
}

}  // namespace

TEST_CASE("a batch holds the samples that the order names, normalised", "[dataset]") {
  const TemporaryDirectory directory;
  const Datasets datasets = build(idx_config(directory), {.seed = 5});
  const std::string pixels = idx_images(21, 3, 5).substr(16);
  const Order order(5, 0, 21);
  std::int64_t position = 0;
  while (const std::optional<Batch> batch = datasets.train->next()) {
    CHECK(batch->inputs.scalar_type() == at::kFloat);
    CHECK(batch->inputs.sizes() == at::IntArrayRef({batch->size(), 1, 3, 5}));
    CHECK(batch->inputs.is_contiguous());
    const float* values = batch->inputs.const_data_ptr<float>();
    for (std::int64_t i = 0; i < batch->size(); ++i, ++position) {
      const std::int64_t index = order(position);
      CHECK(batch->targets.const_data_ptr<std::int64_t>()[i] == index % 10);
      for (std::int64_t k = 0; k < 15; ++k) {
        const auto byte = static_cast<unsigned char>(pixels[static_cast<std::size_t>(15 * index + k)]);
        REQUIRE(values[15 * i + k] == Approx((byte / 255.0 - 0.25) / 0.5).margin(1e-6));
      }
    }
  }
  CHECK(position == 21);
}

TEST_CASE("colour images are channels last", "[dataset]") {
  DatasetConfig config;
  config.source = SyntheticImagesConfig{.num_samples = 6, .channels = 3, .height = 5, .width = 4, .num_classes = 3};
  config.batch_size = 6;
  const Datasets datasets = build(config, {});
  const std::optional<Batch> batch = datasets.train->next();
  REQUIRE(batch);
  CHECK(batch->inputs.sizes() == at::IntArrayRef({6, 3, 5, 4}));
  CHECK(batch->inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(datasets.train->spec().input_shape == std::vector<std::int64_t>{3, 5, 4});
}

TEST_CASE("evaluation goes through all samples in order, each time the same", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = idx_config(directory);
  config.eval_batch_size = 3;
  config.drop_last = true;
  config.transforms.insert(config.transforms.begin(), RandomCropConfig{});
  const Datasets datasets = build(config, {.seed = 5, .workers = 2});
  REQUIRE(datasets.eval);
  CHECK(datasets.eval->batches_per_epoch() == 4);
  for (int round = 0; round < 3; ++round) {
    datasets.eval->seek({});
    std::vector<std::int64_t> labels;
    while (const std::optional<Batch> batch = datasets.eval->next()) {
      const std::int64_t* targets = batch->targets.const_data_ptr<std::int64_t>();
      labels.insert(labels.end(), targets, targets + batch->size());
    }
    CHECK(labels == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
  CHECK(datasets.eval->position() == Position{1, 0});
  CHECK(datasets.eval->next());
}

TEST_CASE("tokens come with their successors as targets", "[dataset]") {
  DatasetConfig config;
  config.source = SyntheticTokensConfig{.num_samples = 10, .seq_len = 12, .vocab_size = 50};
  config.batch_size = 4;
  const Datasets datasets = build(config, {});
  std::int64_t samples = 0;
  while (const std::optional<Batch> batch = datasets.train->next()) {
    CHECK(batch->inputs.scalar_type() == at::kLong);
    CHECK(batch->inputs.sizes() == at::IntArrayRef({batch->size(), 12}));
    CHECK(batch->inputs.narrow(1, 1, 11).equal(batch->targets.narrow(1, 0, 11)));
    samples += batch->size();
  }
  CHECK(samples == 10);
}

TEST_CASE("the fingerprint is the data's, not the path's or the loader's", "[dataset]") {
  const TemporaryDirectory here;
  const TemporaryDirectory there;
  DatasetConfig other = idx_config(there);
  other.batch_size = 7;
  CHECK(build(idx_config(here), {}).fingerprint == build(other, {}).fingerprint);
  other.source = IdxConfig{.train = write_idx(there, "train", 20), .eval = {}, .num_classes = {}};
  CHECK(build(idx_config(here), {}).fingerprint != build(other, {}).fingerprint);
  CHECK(build(other, {}).eval == nullptr);
}

TEST_CASE("settings that can't work with the data are refused", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = idx_config(directory);
  config.batch_size = 22;
  config.drop_last = true;
  CHECK_THAT(error_of([&] { build(config, {}); }),
             Contains("drop_last leaves no batch: 21 samples are fewer than dataset.batch_size, 22"));
  config.drop_last = false;
  CHECK(build(config, {}).train->next()->size() == 21);
  config.source = SyntheticTokensConfig{};
  CHECK_THAT(error_of([&] { build(config, {}); }),
             Contains("transforms are for images, but synthetic_tokens has tokens"));
}

}  // namespace trainctl::dataset::build_test
