#include "data_tools/sharding.h"

#include <ATen/ops/equal.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "dataset/dataset.h"
#include "dataset/image/codec/decode.h"

#include "support/small_files.h"

using namespace trainctl;
using namespace trainctl::data_tools;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

/// A folder of `count` JPEGs of two classes, 60×40 each.
std::string photos(const TemporaryDirectory& directory, int count) {
  for (int i = 0; i < count; ++i) {
    dataset::Image image;
    image.resize(40, 60);
    for (std::size_t p = 0; p < image.bytes.size(); ++p)
      image.bytes[p] = static_cast<std::uint8_t>(static_cast<std::size_t>(i) * 7 + p / 60);
    const std::vector<std::byte> bytes = dataset::encode_jpeg(image, 90);
    fs::create_directories(directory.path() / "photos" / (i % 2 == 0 ? "even" : "odd"));
    directory.write("photos/" + std::string(i % 2 == 0 ? "even/" : "odd/") + std::to_string(i) + ".jpg",
                    {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return (directory.path() / "photos").string();
}

dataset::DatasetConfig folder_config(const TemporaryDirectory& directory, const std::string& photos) {
  dataset::DatasetConfig config;
  config.source = dataset::ImageFolderConfig{.train = photos, .cache_dir = (directory.path() / "cache").string()};
  config.transforms = {dataset::ResizeConfig{.size = 8}, dataset::CenterCropConfig{.size = 8}};
  config.batch_size = 5;
  config.num_workers = 1;
  return config;
}

dataset::DatasetConfig shards_config(const TemporaryDirectory& directory, const std::string& shards) {
  dataset::DatasetConfig config = folder_config(directory, "");
  config.source = dataset::WebDatasetConfig{.train = {shards}, .cache_dir = (directory.path() / "cache").string()};
  return config;
}

/// How often each image and class comes.
std::map<std::pair<std::vector<float>, std::int64_t>, int> contents(const dataset::DatasetConfig& config) {
  const dataset::Datasets data = dataset::build(config, {});
  std::map<std::pair<std::vector<float>, std::int64_t>, int> all;
  while (std::optional<dataset::Batch> batch = data.train->next())
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const at::Tensor image = batch->inputs.select(0, i).contiguous();
      const auto* values = image.const_data_ptr<float>();
      ++all[{{values, values + image.numel()}, batch->targets.select(0, i).item<std::int64_t>()}];
    }
  return all;
}

std::map<std::string, std::string> files_in(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory))
    files[entry.path().filename().string()] = core::read_file(entry.path());
  return files;
}

}  // namespace

TEST_CASE("shards of a folder have its images and classes, byte for byte, and verify", "[data_tools]") {
  const TemporaryDirectory directory;
  const dataset::DatasetConfig folder = folder_config(directory, photos(directory, 30));
  const fs::path output = directory.path() / "shards";
  const ShardReport report = shard_dataset(folder, {.output = output, .shard_bytes = 8 << 10, .threads = 3});
  CHECK(report.samples == 30);
  CHECK(report.shards.size() > 2);
  const dataset::DatasetConfig shards = shards_config(directory, output.string());
  CHECK(contents(shards) == contents(folder));
  CHECK(dataset::build(shards, {}).train->spec().class_names == std::vector<std::string>{"even", "odd"});

  CHECK(verify_dataset(shards, 2).faults.empty());
  CHECK(verify_dataset(shards, 2).samples == 30);
  CHECK(verify_dataset(shards, 2).shards == static_cast<std::int64_t>(report.shards.size()));
  const fs::path first = output / report.shards[0].file;
  std::string damaged = core::read_file(first);
  damaged[1100] = static_cast<char>(damaged[1100] ^ 0x10);
  core::write_file_atomically(first, damaged);
  const VerifyReport found = verify_dataset(shards, 2);
  REQUIRE_FALSE(found.faults.empty());
  CHECK_THAT(found.faults[0].name + found.faults[0].what, Contains("train-000000.tar") && Contains("checksum"));
}

TEST_CASE("sharding goes on after an interruption, to the same bytes", "[data_tools]") {
  const TemporaryDirectory directory;
  const dataset::DatasetConfig folder = folder_config(directory, photos(directory, 30));
  const fs::path whole = directory.path() / "whole";
  const fs::path killed = directory.path() / "killed";
  const auto request = [](const fs::path& output) {
    return ShardRequest{.output = output, .shard_bytes = 8 << 10, .threads = 2};
  };
  const ShardReport report = shard_dataset(folder, request(whole));
  shard_dataset(folder, request(killed));
  // As if it had been killed: one shard wasn't begun, one isn't noted, one is half written beside its place.
  fs::remove(killed / "index.json");
  fs::remove(killed / report.shards[0].file);
  fs::remove(killed / ("." + report.shards[1].file + ".json"));
  fs::remove(killed / report.shards[2].file);
  core::write_file_atomically(killed / ("." + report.shards[2].file + ".part"), "half");
  const ShardReport resumed = shard_dataset(folder, request(killed));
  CHECK(resumed.kept == static_cast<std::int64_t>(report.shards.size()) - 3);
  CHECK(files_in(killed) == files_in(whole));
  CHECK(shard_dataset(folder, request(whole)).kept == static_cast<std::int64_t>(report.shards.size()));

  ShardRequest other = request(whole);
  other.max_side = 30;
  CHECK_THAT(error_of([&] { shard_dataset(folder, other); }), Contains("other data, or made with other options"));
  other.output = directory.path() / "photos";
  CHECK_THAT(error_of([&] { shard_dataset(folder, other); }), Contains("isn't empty"));
}

TEST_CASE("large images are shrunk on their way into shards; small ones are kept", "[data_tools]") {
  const TemporaryDirectory directory;
  const dataset::DatasetConfig folder = folder_config(directory, photos(directory, 6));
  const fs::path output = directory.path() / "small";
  shard_dataset(folder, {.output = output, .max_side = 30, .threads = 1});
  const StatReport small = dataset_statistics(shards_config(directory, output.string()), {});
  CHECK(small.sets[0].width == std::array<std::int64_t, 3>{30, 30, 30});
  CHECK(small.sets[0].height == std::array<std::int64_t, 3>{20, 20, 20});
}

TEST_CASE("images of one size become PNG without loss; text becomes token files", "[data_tools]") {
  const TemporaryDirectory directory;
  dataset::DatasetConfig idx;
  idx.source = dataset::IdxConfig{.train = write_idx(directory, "t", 20), .eval = write_idx(directory, "e", 8)};
  const fs::path output = directory.path() / "png";
  CHECK(shard_dataset(idx, {.output = output}).samples == 28);
  dataset::DatasetConfig shards;
  shards.source = dataset::WebDatasetConfig{.train = {(output / "train-*.tar").string()},
                                            .eval = {(output / "eval-*.tar").string()},
                                            .cache_dir = (directory.path() / "cache").string()};
  shards.transforms = {dataset::ResizeConfig{.size = 3, .width = 5}};
  const StatReport before = dataset_statistics(idx, {});
  const StatReport after = dataset_statistics(shards, {});
  CHECK(before.sets.size() == 2);
  CHECK(after.sets[1].class_counts == before.sets[1].class_counts);
  CHECK(after.sets[0].mean[0] == Approx(before.sets[0].mean[0]));
  CHECK(after.sets[0].std[0] == Approx(before.sets[0].std[0]));

  dataset::DatasetConfig text;
  text.source = dataset::TextLmConfig{
      .train = {.files = {directory.write("a.txt", std::string(1000, 'x') + "The end, and nothing but the end.")}},
      .tokenizer = "bytes",
      .seq_len = 16,
      .cache_dir = (directory.path() / "tokens").string()};
  text.shuffle = false;
  text.batch_size = 7;
  const fs::path bins = directory.path() / "bins";
  CHECK(shard_dataset(text, {.output = bins, .shard_bytes = 512}).shards.size() > 2);
  dataset::DatasetConfig tokens = text;
  tokens.source = dataset::TokenizedConfig{.train = {bins.string()}, .vocab_size = 300, .seq_len = 16};
  const dataset::Datasets expected = dataset::build(text, {});
  const dataset::Datasets got = dataset::build(tokens, {});
  REQUIRE(got.train->num_samples() == expected.train->num_samples());
  while (std::optional<dataset::Batch> batch = expected.train->next()) {
    const std::optional<dataset::Batch> same = got.train->next();
    CHECK(batch->inputs.equal(same->inputs));
    CHECK(batch->targets.equal(same->targets));
  }
  CHECK(verify_dataset(tokens, 1).faults.empty());
}

TEST_CASE("statistics count classes and unreadable files, and make a page with thumbnails", "[data_tools]") {
  const TemporaryDirectory directory;
  const std::string root = photos(directory, 9);
  directory.write("photos/odd/broken.jpg", "no image");
  const fs::path page = directory.path() / "page.html";
  const StatReport report = dataset_statistics(folder_config(directory, root), {.threads = 2, .html = page});
  CHECK(report.sets[0].samples == 10);
  CHECK(report.sets[0].bad == 1);
  CHECK(report.sets[0].class_counts == std::vector<std::int64_t>{5, 4});
  CHECK(report.sets[0].mean.size() == 3);
  const std::string html = core::read_file(page);
  CHECK_THAT(html, Contains("data:image/jpeg;base64,") && Contains("even") && Contains("broken.jpg"));
  CHECK(html.find("http") == std::string::npos);
  const VerifyReport faults = verify_dataset(folder_config(directory, root), 2);
  REQUIRE(faults.faults.size() == 1);
  CHECK_THAT(faults.faults[0].name, Contains("broken.jpg"));
}
