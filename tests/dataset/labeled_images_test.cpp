#include <ATen/ops/tensor.h>

#include <map>

#include "dataset/dataset.h"
#include "dataset/first_rows.h"
#include "dataset/missing_inputs.h"
#include "dataset/small_images.h"
#include "support/small_files.h"

namespace trainctl::dataset::labeled_images_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

/// Writes photos/N.jpg of level 20 N, and the table.
DatasetConfig photos(const TemporaryDirectory& directory, int count, const std::string& table) {
  std::filesystem::create_directories(directory.path() / "photos");
  for (int i = 0; i < count; ++i) directory.write("photos/" + std::to_string(i) + ".jpg", jpeg(20 * i));
  DatasetConfig config;
  config.source = ImageFolderConfig{
      .train = (directory.path() / "photos").string(),
      .eval = std::nullopt,
      .labels = ImageLabelsConfig{.train = directory.write("labels.csv", table), .eval = {}, .test = {}}};
  config.batch_size = 4;
  config.shuffle = false;
  config.transforms = {ResizeConfig{.size = 4, .width = 4}};
  return config;
}

ImageFolderConfig& folder_of(DatasetConfig& config) {
  return std::get<ImageFolderConfig>(config.source.value);
}

/// Returns the targets of each level of the images, as text.
std::map<int, std::string> targets_of(Loader& loader) {
  std::map<int, std::string> found;
  while (const std::optional<Batch> batch = loader.next())
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const int level = static_cast<int>(batch->inputs[i].mean().item<float>() * 255 + 0.5F) / 10 * 10;
      const at::Tensor target = batch->targets[i].contiguous();
      std::string text;
      for (std::int64_t k = 0; k < target.numel(); ++k)
        text += std::to_string(target.const_data_ptr<std::int64_t>()[k]);
      found[level] = text;
    }
  return found;
}

std::string failure_of(const DatasetConfig& config) {
  return error_of([&] { build(config, {}); });
}

}  // namespace

TEST_CASE("a table labels the images that it names, and leaves the others out", "[dataset]") {
  const TemporaryDirectory directory;
  const Datasets data = build(photos(directory, 5, "file_name,label\n2.jpg,dog\n0.jpg,cat\n4.jpg,cat\n"), {});
  CHECK(data.train->num_samples() == 3);
  CHECK(data.train->spec().class_names == std::vector<std::string>{"cat", "dog"});
  CHECK(data.train->spec().targets == Targets::labels);
  CHECK(data.train->spec().class_counts == std::vector<std::int64_t>{2, 1});
  CHECK(targets_of(*data.train) == std::map<int, std::string>{{0, "0"}, {40, "1"}, {80, "0"}});
}

TEST_CASE("labels that are numbers keep their order, and names may lack the ending", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos(directory, 3, "id\tclass\n0\t10\n1\t9\n2\t9\n");
  std::filesystem::rename(directory.path() / "labels.csv", directory.path() / "labels.tsv");
  ImageLabelsConfig& labels = *folder_of(config).labels;
  labels.train = (directory.path() / "labels.tsv").string();
  labels.file = "id";
  labels.label = "class";
  const Datasets data = build(config, {});
  CHECK(data.train->spec().class_names == std::vector<std::string>{"9", "10"});
  CHECK(targets_of(*data.train) == std::map<int, std::string>{{0, "1"}, {20, "0"}, {40, "0"}});
}

TEST_CASE("a name without an ending gets one in any case", "[dataset][regression]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos(directory, 3, "file_name,label\n0,cat\n1,dog\n2,cat\n");
  const std::filesystem::path root = folder_of(config).train;
  for (const auto& [number, ending] : {std::pair("0", ".Jpg"), std::pair("1", ".JPG")})
    std::filesystem::rename(root / (std::string(number) + ".jpg"), root / (std::string(number) + ending));
  CHECK(build(config, {}).train->num_samples() == 3);
}

TEST_CASE("a separator gives images several labels, or none", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos(directory, 4, "file_name,label\n0.jpg,dog | cat\n1.jpg,\n2.jpg,dog\n3.jpg,ant|cat\n");
  folder_of(config).labels->separator = "|";
  const Datasets data = build(config, {});
  CHECK(data.train->spec().targets == Targets::label_sets);
  CHECK(data.train->spec().class_names == std::vector<std::string>{"ant", "cat", "dog"});
  CHECK(data.train->spec().class_counts.empty());
  const std::map<int, std::string> expected{{0, "011"}, {20, "000"}, {40, "001"}, {60, "110"}};
  CHECK(targets_of(*data.train) == expected);
  config.balanced_sampling = true;
  CHECK_THAT(failure_of(config), Contains("dataset.balanced_sampling"));
}

TEST_CASE("images of a mixture keep their sets of labels", "[dataset][regression]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos(directory, 3, "file_name,label\n0.jpg,dog | cat\n1.jpg,\n2.jpg,dog\n");
  folder_of(config).labels->separator = "|";
  MixtureConfig mixture;
  mixture.sources = {{.source = folder_of(config)}, {.source = folder_of(config)}};
  config.source = mixture;
  CHECK(targets_of(*build(config, {}).train) == std::map<int, std::string>{{0, "11"}, {20, "00"}, {40, "01"}});
}

TEST_CASE("columns of 0 and 1 are labels, too", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos(directory, 3, "file_name,sun,sea\n0.jpg,1,1\n1.jpg,0,0.0\n2.jpg,0,1\n");
  folder_of(config).labels->label_columns = {"sea", "sun"};
  const Datasets data = build(config, {});
  CHECK(data.train->spec().class_names == std::vector<std::string>{"sea", "sun"});
  CHECK(targets_of(*data.train) == std::map<int, std::string>{{0, "11"}, {20, "00"}, {40, "10"}});
  directory.write("labels.csv", "file_name,sun,sea\n0.jpg,1,2\n");
  CHECK_THAT(failure_of(config), Contains("labels.csv:2: column 'sea' should be 0 or 1, got '2'"));
}

TEST_CASE("an evaluation set has a table of its own, with the classes of training", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos(directory, 4, "file_name,label\n0.jpg,a\n1.jpg,b\n");
  folder_of(config).eval = folder_of(config).train;
  folder_of(config).labels->eval = directory.write("eval.csv", "file_name,label\n3.jpg,b\n");
  const Datasets data = build(config, {});
  CHECK(targets_of(*data.eval) == std::map<int, std::string>{{60, "1"}});
  directory.write("eval.csv", "file_name,label\n3.jpg,bb\n");
  CHECK_THAT(failure_of(config), Contains("eval.csv:2: the label 'bb' is none of the classes: a or b"));
  folder_of(config).eval.reset();
  folder_of(config).labels->eval.reset();
  folder_of(config).eval_fraction = 0.5;
  const Datasets split = build(config, {});
  CHECK(split.train->num_samples() + split.eval->num_samples() == 2);
}

TEST_CASE("a wrong row of a table of labels is named", "[dataset]") {
  const TemporaryDirectory directory;
  const auto failure = [&](const std::string& table) { return failure_of(photos(directory, 3, table)); };
  CHECK_THAT(failure("file_name,label\n0.jpg,a\n7.jpg,b\n"),
             Contains("labels.csv:3: there is no picture") && Contains("photos/7.jpg"));
  CHECK_THAT(failure("file_name,label\n0.jpg,a\n1.jpg,b\n0.jpg,b\n"),
             Contains("labels.csv:4: 0.jpg has a row already, in line 2"));
  CHECK_THAT(failure("file_name,label\n0.jpg,\n"), Contains("labels.csv:2: the label is empty"));
  CHECK_THAT(failure("file_name,label\n,a\n"), Contains("labels.csv:2: the file name is empty"));
  CHECK_THAT(failure("file_name,label\n0.jpg\n"),
             Contains("labels.csv:2: this row has 1 columns, and the first one 2"));
  CHECK_THAT(failure("filename,label\n0.jpg,a\n"),
             Contains("there is no column 'file_name'; the columns are filename and label"));
  CHECK_THAT(failure("file_name,label\n"), Contains("labels.csv has no rows"));
}

TEST_CASE("check looks at the rows of tables of labels", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos(directory, 2, "file_name,label\n0.jpg,a\n9.jpg,b\n");
  const std::vector<InputProblem> rows = wrong_first_rows(config);
  REQUIRE(rows.size() == 1);
  CHECK_THAT(rows[0].message, Contains("labels.csv:3: there is no picture"));
  folder_of(config).labels->train = "nowhere.csv";
  const std::vector<InputProblem> missing = missing_inputs(config);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].key == "dataset.labels.train");
}

TEST_CASE("another label changes the fingerprint", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string before = build(photos(directory, 2, "file_name,label\n0.jpg,a\n1.jpg,b\n"), {}).fingerprint;
  CHECK(build(photos(directory, 2, "file_name,label\n0.jpg,a\n1.jpg,b\n"), {}).fingerprint == before);
  CHECK(build(photos(directory, 2, "file_name,label\n0.jpg,b\n1.jpg,b\n"), {}).fingerprint != before);
}

}  // namespace trainctl::dataset::labeled_images_test
