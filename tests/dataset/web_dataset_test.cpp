#include <ATen/ops/equal.h>

#include <algorithm>
#include <set>

#include "dataset/dataset.h"
#include "dataset/loader/bad_samples.h"
#include "dataset/small_images.h"
#include "support/small_files.h"

namespace trainctl::dataset::web_dataset_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

DatasetConfig config_of(const TemporaryDirectory& directory, WebDatasetConfig source) {
  DatasetConfig config;
  source.cache_dir = (directory.path() / "cache").string();
  for (std::string& name : source.train) name = (directory.path() / name).string();
  for (std::string& name : source.eval) name = (directory.path() / name).string();
  config.source = source;
  config.batch_size = 4;
  config.num_workers = 1;
  config.transforms = {ResizeConfig{.size = 8}, CenterCropConfig{.size = 8}};
  return config;
}

/// Numbers of the images and their classes, as they come.
std::vector<std::pair<int, std::int64_t>> samples(Loader& loader) {
  std::vector<std::pair<int, std::int64_t>> all;
  while (std::optional<Batch> batch = loader.next())
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const float grey = batch->inputs.select(0, i).mean().item<float>() * 255;
      all.emplace_back(static_cast<int>(std::lround(grey / 5)), batch->targets.select(0, i).item<std::int64_t>());
    }
  return all;
}

}  // namespace

TEST_CASE("shards of images give all their samples with their classes, shuffled each epoch", "[dataset]") {
  const TemporaryDirectory directory;
  directory.write("t-00.tar", shard_of_images(0, 20));
  directory.write("t-01.tar", shard_of_images(20, 20));
  for (const std::int64_t window : {0, 8}) {
    for (const char* round : {"made", "from the cached index"}) {
      INFO(round);
      WebDatasetConfig source{.train = {"t-{00..01}.tar"}};
      source.shuffle_buffer = window;
      const Datasets data = build(config_of(directory, source), {.seed = 4});
      CHECK(data.train->num_samples() == 40);
      CHECK(data.train->spec().num_classes == 3);
      const auto first = samples(*data.train);
      const auto second = samples(*data.train);
      CHECK(first != second);
      std::set<int> numbers;
      for (const auto& [number, label] : first) {
        numbers.insert(number);
        CHECK(label == number % 3);
      }
      CHECK(numbers.size() == 40);
      CHECK(*numbers.rbegin() == 39);
    }
  }
}

TEST_CASE("a shard of the same size and time with other labels is read anew", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const std::filesystem::path shard = directory.write("t.tar", shard_of_images(0, 20));
  const auto time = std::filesystem::last_write_time(shard);
  const auto read = [&] {
    auto found = samples(*build(config_of(directory, {.train = {"t.tar"}}), {}).train);
    std::sort(found.begin(), found.end());
    return found;
  };
  for (const auto& [number, label] : read()) CHECK(label == number % 3);
  std::string other = shard_of_images(1, 20);  // images and labels of the next numbers
  REQUIRE(other.size() == std::filesystem::file_size(shard));
  directory.write("t.tar", other);
  std::filesystem::last_write_time(shard, time);
  const auto again = read();
  CHECK(again.front().first == 1);
  for (const auto& [number, label] : again) CHECK(label == number % 3);
}

TEST_CASE("a part of the shards' samples is kept for evaluation", "[dataset]") {
  const TemporaryDirectory directory;
  directory.write("t-00.tar", shard_of_images(0, 45));
  const Datasets data = build(config_of(directory, {.train = {"*.tar"}, .eval_fraction = 0.3}), {});
  CHECK(data.train->num_samples() + data.eval->num_samples() == 45);
  std::set<int> numbers;
  for (Loader* loader : {data.train.get(), data.eval.get()})
    for (const auto& sample : samples(*loader)) numbers.insert(sample.first);
  CHECK(numbers.size() == 45);
  CHECK(data.eval->num_samples() > 3);
}

TEST_CASE("shards with names as labels, and shards that don't fit, are told", "[dataset]") {
  const TemporaryDirectory directory;
  std::string named;
  int number = 0;
  for (const char* name : {"dog", "cat", "dog"}) {
    add_member(named, std::to_string(++number) + ".jpg", jpeg(9, 16, 20));
    add_member(named, std::to_string(number) + ".cls", name);
  }
  directory.write("named.tar", named + tar_end());
  const Datasets data = build(config_of(directory, {.train = {"named.tar"}}), {});
  CHECK(data.train->spec().class_names == std::vector<std::string>{"cat", "dog"});
  CHECK_THAT(error_of([&] { build(config_of(directory, {.train = {"named.tar"}, .class_names = {"cat"}}), {}); }),
             Contains("'dog' is none of the classes"));
  directory.write("t.tar", shard_of_images(0, 5));
  WebDatasetConfig few{.train = {"t.tar"}};
  few.num_classes = 2;
  CHECK_THAT(error_of([&] { build(config_of(directory, few), {}); }), Contains("photos/2: its label 2 is not below"));
  directory.write("cut.tar", shard_of_images(0, 5).substr(0, 3000));
  CHECK_THAT(error_of([&] { build(config_of(directory, {.train = {"cut.tar"}}), {}); }),
             Contains("cut.tar is damaged at byte"));
}

TEST_CASE("labels that are names and numbers are refused, and two members for one", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const auto refusal = [&](const std::vector<std::pair<const char*, const char*>>& samples) {
    std::string tar;
    for (const auto& [key, label] : samples) {
      add_member(tar, std::string(key) + ".jpg", jpeg(9, 16, 20));
      add_member(tar, std::string(key) + ".cls", label);
    }
    directory.write("t.tar", tar + tar_end());
    return error_of([&] { build(config_of(directory, {.train = {"t.tar"}}), {}); });
  };
  CHECK_THAT(refusal({{"1", "0"}, {"2", "1.0"}}), Contains("t.tar: the label '1.0' is a name, and other labels are"));
  CHECK_THAT(refusal({{"1", "cat"}, {"2", "1"}}), Contains("the label 'cat' is a name"));
  CHECK(refusal({{"1", "0"}, {"2", "1"}}) == "no error");
  CHECK_THAT(refusal({{"1", "0"}, {"1", "1"}}), Contains("sample '1'") && Contains("two members that end in .cls"));
}

TEST_CASE("of cut shards the whole samples are used, where bad samples are skipped", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string whole = shard_of_images(0, 8);
  for (std::size_t size = 1024; size < whole.size(); size += 1024) {
    directory.write("cut.tar", whole.substr(0, size));
    directory.write("good.tar", shard_of_images(20, 3));
    DatasetConfig config = config_of(directory, {.train = {"good.tar", "cut.tar"}});
    const bool is_cut = size + 1024 < whole.size();  // not just the end mark's second block
    if (is_cut) CHECK_THAT(error_of([&] { build(config, {}); }), Contains("cut.tar is damaged at byte"));
    config.on_bad_sample = OnBadSample::skip;
    const Datasets data = build(config, {});
    if (is_cut) CHECK(data.bad_samples->count() == 1);
    for (const auto& [number, label] : samples(*data.train)) CHECK(label == number % 3);
  }
}

}  // namespace trainctl::dataset::web_dataset_test
