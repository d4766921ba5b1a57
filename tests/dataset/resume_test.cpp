// Every kind of order that a set may have: the samples that ranks are given together are one sequence, whatever their
// number and that of their workers, and wherever it was interrupted.
#include <map>

#include "dataset/dataset.h"
#include "dataset/small_images.h"
#include "dataset/text_files.h"

namespace trainctl::dataset::resume_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace fs = std::filesystem;

namespace {

using Rows = std::vector<std::string>;

/// The samples of a batch as bytes, padding taken off, with their targets.
void add_rows(const Batch& batch, Rows& rows) {
  const auto bytes = [](const at::Tensor& tensor) {
    const at::Tensor whole = tensor.contiguous();
    return std::string(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  };
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    std::string input = bytes(batch.inputs.select(0, i));
    input.erase(input.find_last_not_of('\0') + 1);
    rows.push_back(input + "|" + bytes(batch.targets.select(0, i)));
  }
}

/// Ranks in step.
class Ranks {
 public:
  Ranks(DatasetConfig config, std::int64_t world, std::int64_t workers, Position start = {}) {
    config.num_workers = workers;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      LoaderOptions options;
      options.seed = 11;
      options.share = {.rank = rank, .world = world};
      loaders_.push_back(std::move(build(config, options).train));
      loaders_.back()->seek(start);
    }
  }

  /// What all of them are given by up to `batches` batches each, or until the epoch ends.
  Rows next(std::int64_t batches = 1 << 20) {
    Rows rows;
    for (bool goes_on = true; goes_on && batches > 0; --batches)
      for (const auto& loader : loaders_)
        if (const std::optional<Batch> batch = loader->next())
          add_rows(*batch, rows);
        else
          goes_on = false;
    return rows;
  }
  Position position() const { return loaders_[0]->position(); }

 private:
  std::vector<std::unique_ptr<Loader>> loaders_;
};

void check_resumes(const DatasetConfig& config, std::int64_t distinct) {
  const Rows alone = Ranks(config, 1, 0).next();
  std::map<std::string, int> counts;
  for (const std::string& row : alone) ++counts[row];
  CHECK(static_cast<std::int64_t>(counts.size()) == distinct);
  for (const std::int64_t steps : {1, 2, 4}) {
    Ranks before(config, 4, 2);
    const Rows begun = before.next(steps);
    for (const std::int64_t world : {1, 2, 3, 8}) {
      INFO("from 4 ranks to " << world << " after " << steps << " steps");
      Rows seen = begun;
      Ranks after(config, world, world == 2 ? 0 : 3, before.position());
      const Rows rest = after.next();
      seen.insert(seen.end(), rest.begin(), rest.end());
      REQUIRE(seen.size() == alone.size());
      CHECK(seen == alone);
      CHECK(after.position() == Position{.epoch = 1, .sample = 0});
    }
  }
}

/// What is drawn is the sample's, too.
void augment(DatasetConfig& config) {
  config.transforms = {RandomResizedCropConfig{.size = 8}, RandomHorizontalFlipConfig{}, NormalizeConfig{},
                       RandomErasingConfig{}};
  config.batch_size = 3;
}

std::string folder_of_images(const TemporaryDirectory& directory, const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string folder = name + (i % 2 == 0 ? "/even" : "/odd");
    fs::create_directories(directory.path() / folder);
    directory.write(folder + "/" + std::to_string(i) + ".jpg", jpeg(3 * i + 1, 20 + i % 5, 30, 3));
  }
  return (directory.path() / name).string();
}

ImageFolderConfig folder(const TemporaryDirectory& directory, const std::string& name, int count) {
  return {.train = folder_of_images(directory, name, count), .cache_dir = (directory.path() / "cache").string()};
}

}  // namespace

TEST_CASE("a folder of images goes on with the same pixels on any number of ranks", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config;
  augment(config);
  config.source = folder(directory, "train", 61);
  check_resumes(config, 61);
}

TEST_CASE("shards shuffled as a whole and in windows go on with the same pixels on any number of ranks", "[dataset]") {
  const TemporaryDirectory directory;
  for (int i = 0; i < 5; ++i) directory.write("t-" + std::to_string(i) + ".tar", shard_of_images(10 * i, 9 + i % 2));
  for (const std::int64_t window : {0, 16}) {
    DatasetConfig config;
    augment(config);
    config.source = WebDatasetConfig{.train = {(directory.path() / "t-{0..4}.tar").string()},
                                     .shuffle_buffer = {window},
                                     .shuffle_shards = 3,
                                     .cache_dir = (directory.path() / "cache").string()};
    check_resumes(config, 47);
  }
}

TEST_CASE("a mixture goes on with the same samples on any number of ranks", "[dataset]") {
  const TemporaryDirectory directory;
  MixtureConfig mixture;
  mixture.sources = {{.weight = 2, .source = folder(directory, "many", 41)},
                     {.weight = 1, .source = folder(directory, "few", 20)}};
  mixture.samples_per_epoch = {63};  // 42 of the many, of which one comes twice, and 21 of the few
  DatasetConfig config;
  augment(config);
  config.transforms = {ResizeConfig{.size = 8, .width = 8}};
  config.source = mixture;
  check_resumes(config, 41);  // of which the 20 are the same images
}

TEST_CASE("token files and tables go on with the same samples on any number of ranks", "[dataset]") {
  const TemporaryDirectory directory;
  std::string tokens;
  for (int i = 0; i < 5 * 67 + 1; ++i) tokens += {static_cast<char>(i & 0xff), static_cast<char>(i >> 8)};
  DatasetConfig config;
  config.batch_size = 3;
  config.source = TokenizedConfig{.train = {directory.write("t.bin", tokens)}, .vocab_size = 1000, .seq_len = 5};
  check_resumes(config, 67);
  std::string rows = "a,b,label\n";
  for (int i = 0; i < 59; ++i)
    rows += std::to_string(i) + "," + std::to_string(i * i) + ",c" + std::to_string(i % 3) + "\n";
  config.source = TableConfig{.train = {directory.write("t.csv", rows)}};
  check_resumes(config, 59);
}

TEST_CASE("texts grouped by length go on with the same texts on any number of ranks", "[dataset]") {
  const TemporaryDirectory directory;
  std::string rows;
  runtime::Random random(5);
  for (int i = 0; i < 71; ++i) {
    rows += std::to_string(i % 2) + "\t";
    for (int bit = 0; bit < 7; ++bit) rows += (i >> bit & 1) == 0 ? "cat " : "dog ";
    for (std::int64_t w = random.below(30); w > 0; --w) rows += "mat ";
    rows += ".\n";
  }
  TextClassificationConfig source;
  source.train.files = {directory.write("t.tsv", rows)};
  source.train.label = "1";
  source.train.text = "2";
  source.tokenizer = directory.write("vocab.txt", vocabulary());
  source.length_group_batches = 4;
  source.cache_dir = (directory.path() / "cache").string();
  DatasetConfig config;
  config.batch_size = 3;
  config.source = source;
  check_resumes(config, 71);
}

}  // namespace trainctl::dataset::resume_test
