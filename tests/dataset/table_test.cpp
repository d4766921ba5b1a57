#include <ATen/ops/mean.h>

#include <cmath>

#include "dataset/dataset.h"
#include "support/small_files.h"

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

DatasetConfig config_of(TableConfig source) {
  DatasetConfig config;
  config.source = std::move(source);
  config.batch_size = 100;
  config.num_workers = 1;
  config.shuffle = false;
  return config;
}

Batch all(const Datasets& data) {
  std::optional<Batch> batch = data.train->next();
  REQUIRE(batch);
  return {.inputs = batch->inputs.clone(), .targets = batch->targets.clone()};
}

std::vector<float> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

std::vector<std::int64_t> classes(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<std::int64_t>(), tensor.const_data_ptr<std::int64_t>() + tensor.numel()};
}

using Floats = std::vector<float>;
using Classes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("rows of a table become features and classes", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string named = directory.write("a.csv", "x,\"y, z\",label\n1,2.5,dog\n-3,4e1,cat\n\n+5,True,dog\n");
  const std::string bare = directory.write("b.csv", "1,2.5,dog\r\n-3,4e1,cat\r\n5,1,dog\r\n");
  const std::string tabs = directory.write("c.tsv", "x\ty\tlabel\n1\t2.5\tdog\n-3\t4e1\tcat\n5\t1\tdog\n");
  for (const auto& config :
       {TableConfig{.train = {named}, .feature_scaling = FeatureScaling::none},
        TableConfig{.train = {bare}, .label = "3", .feature_scaling = FeatureScaling::none},
        TableConfig{.train = {tabs}, .features = {"1", "y"}, .feature_scaling = FeatureScaling::none}}) {
    INFO(config.train[0]);
    if (config.features.size() == 2 && config.train[0] != tabs) continue;
    const Datasets data = build(config_of(config), {});
    CHECK(data.train->spec().class_names == std::vector<std::string>{"cat", "dog"});
    const Batch batch = all(data);
    CHECK(batch.inputs.sizes().vec() == std::vector<std::int64_t>{3, 2});
    CHECK(values(batch.inputs) == Floats{1, 2.5, -3, 40, 5, 1});
    CHECK(classes(batch.targets) == Classes{1, 0, 1});
  }
}

TEST_CASE("features are scaled by the training rows; numbers as classes are sorted as numbers", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string train = directory.write("t.csv", "a,b,label\n1,7,10\n3,7,9\n5,7,2\n");
  const std::string eval = directory.write("e.csv", "a,b,label\n3,8,2\n");
  const Datasets data = build(config_of({.train = {train}, .eval = {eval}}), {});
  const Batch batch = all(data);
  const float unit = 2 / std::sqrt(8.0F / 3);
  CHECK(values(batch.inputs)[0] == Approx(-unit));
  CHECK(values(batch.inputs)[1] == 0);
  CHECK(data.train->spec().class_names == std::vector<std::string>{"2", "9", "10"});
  CHECK(classes(batch.targets) == Classes{2, 1, 0});
  CHECK(values(data.eval->next()->inputs) == Floats{0, 1});
}

TEST_CASE("missing cells are refused, dropped or filled with the mean", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("m.csv", "a,b,label\n1,2,0\nNA,4,1\n3,,0\n5,6,\n");
  const auto config = [&](MissingValues missing) {
    return config_of({.train = {file},
                      .label_type = LabelType::value,
                      .missing_values = missing,
                      .feature_scaling = FeatureScaling::none});
  };
  CHECK_THAT(error_of([&] { build(config(MissingValues::error), {}); }), Contains("m.csv:3: column 'a' is missing"));
  CHECK_THAT(error_of([&] { build(config(MissingValues::mean), {}); }), Contains("m.csv:5: the label is missing"));
  const Batch dropped = all(build(config(MissingValues::drop), {}));
  CHECK(values(dropped.inputs) == Floats{1, 2});
  const std::string labelled = directory.write("l.csv", "a,b,label\n1,2,0.5\nNA,4,1\n3,,0\n");
  const Batch filled = all(build(config_of({.train = {labelled},
                                            .label_type = LabelType::value,
                                            .missing_values = MissingValues::mean,
                                            .feature_scaling = FeatureScaling::none}),
                                 {}));
  CHECK(values(filled.inputs) == Floats{1, 2, 2, 4, 3, 3});
  CHECK(values(filled.targets) == Floats{0.5, 1, 0});
}

TEST_CASE("a part of a table is kept for evaluation, and stays when rows are added", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text = "a,label\n";
  for (int i = 0; i < 200; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  const auto kept = [&](const std::string& file) {
    const Datasets data =
        build(config_of({.train = {file}, .eval_fraction = 0.25, .feature_scaling = FeatureScaling::none}), {});
    CHECK(data.train->num_samples() + data.eval->num_samples() >= 200);
    return values(data.eval->next()->inputs);
  };
  const Floats before = kept(directory.write("a.csv", text));
  CHECK(before.size() > 30);
  CHECK(before.size() < 70);
  const Floats after = kept(directory.write("b.csv", text + "1000,1\n1001,0\n"));
  CHECK(Floats(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before.size())) == before);
}

TEST_CASE("wrong tables are refused with file and line", "[dataset]") {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& text, const TableConfig& more = {}) {
    TableConfig config = more;
    config.train = {directory.write("t.csv", text)};
    return error_of([&] { build(config_of(config), {}); });
  };
  CHECK_THAT(error("a,carrier,label\n1,2,0\n1,UA,0\n"),
             Contains("t.csv:3: column 'carrier' should be a number, but is 'UA'"));
  CHECK_THAT(error("a,b,lable\n1,2,0\n"), Contains("there is no column 'label'"));
  CHECK_THAT(error("a,label\n1,0\n1\n"), Contains("t.csv:3: this row has 1 columns"));
  CHECK_THAT(error("a,label\n"), Contains("no rows"));
  CHECK_THAT(error(""), Contains("ends before its header"));
  CHECK_THAT(error("label\n1\n"), Contains("no column beside the label"));
  CHECK_THAT(error("a,label\n1,x\n", {.label_type = LabelType::value}), Contains("should be a number, but is 'x'"));
  CHECK_THAT(error("a,label\n1,x\n", {.class_names = {"y"}}), Contains("is none of the classes"));
  CHECK_THAT(error("a,label\n,x\n,y\n", {.missing_values = MissingValues::mean}), Contains("has no value in any row"));
  CHECK_THAT(error("a,label\n1,\"x\n"), Contains("never ends"));
}
