#include <ATen/ops/mean.h>

#include <cmath>
#include <numeric>
#include <set>

#include "core/file.h"
#include "dataset/dataset.h"
#include "dataset/description.h"
#include "dataset/inputs.h"
#include "dataset/table/table_encoding.h"
#include "dataset/text/reading/column_kind.h"
#include "support/small_files.h"

namespace trainctl::dataset::table_test {

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
  const std::string named = directory.write("a.csv", "x,\"y, z\",label\n1,2.5,dog\n-3,4e1,cat\n\n+5,1.0,dog\n");
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

TEST_CASE("labels are standardized by the training rows, in double precision", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const std::string train =
      directory.write("t.csv", "a,label\n1,1000000000\n2,1000000001\n3,1000000002\n4,1000000003\n");
  const std::string eval = directory.write("e.csv", "a,label\n5,1000000004\n");
  const TableConfig table{
      .train = {train}, .eval = {eval}, .label_type = LabelType::value, .label_scaling = LabelScaling::standard};
  const Datasets data = build(config_of(table), {});
  const SampleSpec& spec = data.train->spec();
  CHECK(spec.labels.mean == 1000000001.5);
  CHECK(spec.labels.deviation == Approx(std::sqrt(1.25)));
  CHECK(data.eval->spec().labels == spec.labels);
  const Batch rows = all(data);
  for (std::int64_t i = 0; i < 4; ++i)
    CHECK(spec.labels.restored(rows.targets[i].item<double>()) == Approx(1e9 + static_cast<double>(i)).margin(1e-6));
  CHECK(data.eval->next()->targets[0].item<double>() == Approx(2.5 / std::sqrt(1.25)));
  const auto described = described_datasets(description_of(spec), "").train->spec();
  CHECK(described.labels == spec.labels);
  // A trained model keeps its own.
  const Datasets again = build(config_of({.train = {eval}, .label_type = LabelType::value}),
                               {.trained = std::make_shared<const SampleSpec>(spec)});
  CHECK(again.train->spec().labels == spec.labels);
  const std::string equal = directory.write("c.csv", "a,label\n1,7\n2,7\n3,7\n");
  const Datasets constant =
      build(config_of({.train = {equal}, .label_type = LabelType::value, .label_scaling = LabelScaling::standard}), {});
  CHECK(values(all(constant).targets) == Floats{0, 0, 0});
  CHECK(constant.train->spec().labels == Standardization{.mean = 7, .deviation = 1});
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

TEST_CASE("a table's test set is apart, and its inputs are those of the training rows", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text = "a,label\n";
  for (int i = 0; i < 200; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  TableConfig table{.train = {directory.write("a.csv", text)}, .eval_fraction = 0.2, .test_fraction = 0.2};
  const Datasets trains = build(config_of(table), {});
  const Datasets tests = build(config_of(table), {.evaluated = EvaluatedSet::test});
  const Datasets fits = build(config_of(table), {.evaluated = EvaluatedSet::train});
  CHECK(trains.train->num_samples() + trains.eval->num_samples() + tests.eval->num_samples() == 200);
  CHECK(tests.fingerprint == trains.fingerprint);
  CHECK(fits.eval->num_samples() == trains.train->num_samples());

  table.test_fraction = 0;
  table.test = {directory.write("test.csv", "a,label\n7,1\n")};
  const Datasets named = build(config_of(table), {.evaluated = EvaluatedSet::test});
  CHECK(named.eval->num_samples() == 1);
  table.test = {"absent.csv"};
  CHECK_NOTHROW(build(config_of(table), {}));  // training never opens it
  CHECK_THROWS(build(config_of(table), {.evaluated = EvaluatedSet::test}));
}

TEST_CASE("folds of a table scale by the rows that they train on", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text = "a,label\n";
  for (int i = 0; i < 50; ++i) text += std::to_string(i * i) + "," + std::to_string(i % 5 == 0) + "\n";
  DatasetConfig config = config_of({.train = {directory.write("a.csv", text)}});
  std::int64_t held_out = 0;
  std::set<std::string> fingerprints, undivided;
  for (const std::int64_t index : {0, 1, 2, 3, 4}) {
    config.fold = FoldConfig{.count = 5, .index = index};
    const Datasets data = build(config, {});
    held_out += data.eval->num_samples();
    CHECK(data.train->num_samples() == 40);
    CHECK(data.train->spec().class_counts == std::vector<std::int64_t>{32, 8});
    const Floats scaled = values(data.train->next()->inputs);
    CHECK(std::abs(std::accumulate(scaled.begin(), scaled.end(), 0.0F)) < 1e-3);
    fingerprints.insert(data.fingerprint);
    undivided.insert(data.undivided_fingerprint);
  }
  CHECK(held_out == 50);
  CHECK(fingerprints.size() == 5);
  REQUIRE(undivided.size() == 1);
  // The number of rows is the same, and one row is another.
  directory.write("a.csv", "a,label\n7,1" + text.substr(text.find('\n', text.find('\n') + 1)));
  CHECK_FALSE(undivided.contains(build(config, {}).undivided_fingerprint));
  config.fold.reset();
  CHECK(build(config, {}).undivided_fingerprint.empty());
}

TEST_CASE("wrong tables are refused with file and line", "[dataset]") {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& text, const TableConfig& more = {}) {
    TableConfig config = more;
    config.train = {directory.write("t.csv", text)};
    return error_of([&] { build(config_of(config), {}); });
  };
  CHECK_THAT(error("a,carrier,label\n1,2,0\n1,UA,0\n", {.numerical_columns = {"carrier"}}),
             Contains("t.csv:3: column 'carrier' should be a number, but is 'UA'"));
  CHECK_THAT(error("a,day,label\n1,2024-02-30,0\n", {.date_columns = {"day"}}),
             Contains("t.csv:2: column 'day' should be a date, but is '2024-02-30'"));
  CHECK_THAT(error("a,b,label\n1,2,0\n", {.categorical_columns = {"c"}}), Contains("there is no column 'c'"));
  CHECK_THAT(error("a,b,lable\n1,2,0\n"), Contains("there is no column 'label'"));
  CHECK_THAT(error("a,label\n1,0\n1\n"), Contains("t.csv:3: this row has 1 columns"));
  CHECK_THAT(error("a,label\n"), Contains("no rows"));
  CHECK_THAT(error(""), Contains("t.csv is empty"));
  CHECK_THAT(error("label\n1\n"), Contains("no column beside the label"));
  CHECK_THAT(error("a,label\n1,x\n", {.label_type = LabelType::value}), Contains("should be a number, but is 'x'"));
  CHECK_THAT(error("a,label\n1,x\n", {.class_names = {"y"}}), Contains("is none of the classes"));
  CHECK_THAT(error("a,label\n,x\n,y\n", {.missing_values = MissingValues::mean}), Contains("has no value in any row"));
  CHECK_THAT(error("a,label\n1,\"x\n"), Contains("never ends"));
}

TEST_CASE("categories become an input each, and a missing one is a category of its own", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string train = directory.write("t.csv", "size,city,label\n1,Rome,a\n2,,b\n3,Oslo,a\n4,Rome,b\n");
  const std::string eval = directory.write("e.csv", "size,city,label\n5,Paris,a.\n6,?,b\n");
  const Datasets data =
      build(config_of({.train = {train}, .eval = {eval}, .feature_scaling = FeatureScaling::none}), {});
  const Batch batch = all(data);
  CHECK(batch.inputs.sizes().vec() == std::vector<std::int64_t>{4, 4});  // size, "", Oslo, Rome
  CHECK(values(batch.inputs) == Floats{1, 0, 0, 1, 2, 1, 0, 0, 3, 0, 1, 0, 4, 0, 0, 1});
  const std::optional<Batch> unknown = data.eval->next();
  CHECK(values(unknown->inputs) == Floats{5, 0, 0, 0, 6, 1, 0, 0});
  CHECK(classes(unknown->targets) == Classes{0, 1});  // "a." stands for "a"
}

TEST_CASE("rare categories share an input, and a column of names is left out and told", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text = "name,city,label\n";
  for (int i = 0; i < 40; ++i)
    text += "person " + std::to_string(i) + "," +
            (i < 20   ? "Rome"
             : i < 30 ? "Oslo"
                      : "v" + std::to_string(i % 4)) +
            "," + std::to_string(i % 2) + "\n";
  std::string told;
  LoaderOptions options;
  options.tell = [&](const std::string& what) { told += what; };
  const Datasets data = build(config_of({.train = {directory.write("t.csv", text)}, .max_categories = 2}), options);
  const Batch batch = all(data);
  CHECK(batch.inputs.sizes().vec() == std::vector<std::int64_t>{40, 3});  // Oslo, Rome, others
  const Floats rows = values(batch.inputs);
  CHECK(Floats(rows.begin(), rows.begin() + 3) == Floats{0, 1, 0});
  CHECK(Floats(rows.end() - 3, rows.end()) == Floats{0, 0, 1});
  CHECK_THAT(told, Contains("column 'name' is left out: 40 different values in 40 rows"));
}

TEST_CASE("dates become the day, and month, weekday and hour on circles", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string days = directory.write("d.csv", "day,label\n2024-01-01,0\n2024/4/3,1\n");
  const Batch batch = all(build(config_of({.train = {days}}), {}));
  REQUIRE(batch.inputs.sizes().vec() == std::vector<std::int64_t>{2, 5});
  const Floats rows = values(batch.inputs);
  CHECK(rows[0] == Approx(-1));
  CHECK(rows[5] == Approx(1));
  CHECK(rows[1] == Approx(0).margin(1e-6));  // January
  CHECK(rows[2] == Approx(1));
  CHECK(rows[6] == Approx(1));                           // April: a quarter of the circle
  CHECK(rows[3] == Approx(std::sin(2 * M_PI / 7)));      // a Monday
  CHECK(rows[8] == Approx(std::sin(2 * M_PI * 3 / 7)));  // a Wednesday
  const std::string times = directory.write("h.csv", "day,label\n2024-01-01 06:00,0\n2024-01-02T18:00:00Z,1\n");
  const Floats hours = values(all(build(config_of({.train = {times}}), {})).inputs);
  REQUIRE(hours.size() == 14);
  CHECK(hours[5] == Approx(1));
  CHECK(hours[12] == Approx(-1));
}

TEST_CASE("a piecewise linear encoding follows its equation", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text = "x,label\n";
  for (int i = 0; i <= 8; ++i) text += std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";  // 0 to 64
  const Batch batch = all(build(config_of({.train = {directory.write("p.csv", text)},
                                           .feature_scaling = FeatureScaling::piecewise_linear,
                                           .num_bins = 4}),
                                {}));
  REQUIRE(batch.inputs.sizes().vec() == std::vector<std::int64_t>{9, 4});  // edges 0, 4, 16, 36, 64
  const Floats rows = values(batch.inputs);
  CHECK(Floats(rows.begin(), rows.begin() + 4) == Floats{0, 0, 0, 0});
  CHECK(Floats(rows.begin() + 12, rows.begin() + 16) == Floats{1, 5.0F / 12, 0, 0});  // 9
  CHECK(Floats(rows.end() - 4, rows.end()) == Floats{1, 1, 1, 1});
}

TEST_CASE("a table shows its separator, its header and lines before it", "[dataset]") {
  const TemporaryDirectory directory;
  const auto inputs = [&](const std::string& name, const std::string& text, TableConfig config) {
    config.train = {directory.write(name, text)};
    config.feature_scaling = FeatureScaling::none;
    return values(all(build(config_of(config), {})).inputs);
  };
  CHECK(inputs("s.csv", "a;b;label\n1;2;x\n3;4;y\n", {}) == Floats{1, 2, 3, 4});
  CHECK(inputs("adult.data", "1, 2, x\n3, 4, y\n", {.label = "3"}) == Floats{1, 2, 3, 4});
  CHECK(inputs("adult.test", "|1x3 Cross validator\n1, 2, x\n3, 4, y\n", {.label = "3"}) == Floats{1, 2, 3, 4});
  CHECK(inputs("n.csv", "a,b,c\n1,2,x\n3,4,y\n", {.label = "3"}) == Floats{1, 2, 3, 4});
  CHECK(inputs("orange.tab", "a\tb\tlabel\ncontinuous\tc\td\n\t\tclass\n1\t2\tx\n3\t4\ty\n", {}) == Floats{1, 2, 3, 4});
}

TEST_CASE("a description of a table gives the same inputs as the training rows", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file =
      directory.write("t.csv", "x,city,day,label\n1,Rome,2024-01-01,a\n2,Oslo,2024-02-01,b\n9,Rome,2024-03-05,a\n");
  const DatasetConfig config =
      config_of({.train = {file}, .feature_scaling = FeatureScaling::piecewise_linear, .num_bins = 2});
  const Datasets data = build(config, {});
  const Datasets described = described_datasets(description_of(data.train->spec()), data.fingerprint);
  CHECK(described.train->spec().class_names == data.train->spec().class_names);
  CHECK(described.train->spec().input_shape == data.train->spec().input_shape);
  CHECK_THAT(error_of([&] { described.train->next(); }), Contains("opened no samples"));
  const auto table = table_inputs_of(config.source, described.train->spec());
  Floats rows;
  table->read(core::read_file(file), "t.csv", [&](const LineInput<at::Tensor>& line) {
    REQUIRE(line.content);
    const Floats row = values(*line.content);
    rows.insert(rows.end(), row.begin(), row.end());
  });
  CHECK(rows == values(all(data).inputs));
  CHECK_THAT(error_of([] { described_datasets("{}", ""); }), Contains("can't be read"));
}

TEST_CASE("rows for a trained model become the inputs that it was trained with", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string train = directory.write("t.csv", "x,city,label\n0,Rome,a\n2,Oslo,b\n4,Rome,a\n");
  const std::string other = directory.write("o.csv", "x,city,label\n7,Paris,a\n9,Rome,b\n");
  const Datasets trained = build(config_of({.train = {train}}), {});
  LoaderOptions options;
  options.trained = std::make_shared<const SampleSpec>(trained.train->spec());
  const Batch batch = all(build(config_of({.train = {other}}), options));
  CHECK(batch.inputs.sizes().vec() == std::vector<std::int64_t>{2, 3});
  const float unit = 1 / std::sqrt(8.0F / 3);
  CHECK(values(batch.inputs)[0] == Approx(5 * unit));
  CHECK(values(batch.inputs)[1] == 0);  // Paris is neither Oslo
  CHECK(values(batch.inputs)[2] == 0);  // nor Rome
  const std::string lacking = directory.write("l.csv", "x,label\n7,a\n");
  CHECK_THAT(error_of([&] { build(config_of({.train = {lacking}}), options); }), Contains("no column 'city'"));
}

TEST_CASE("a table whose scale has changed is read as trained, and tells of its rows once", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const Datasets trained = build(config_of({.train = {directory.write("t.csv", "x,label\n0,a\n2,b\n4,a\n")}}), {});
  LoaderOptions options;
  std::vector<std::string> told;
  options.tell = [&](const std::string& what) { told.push_back(what); };
  const TableConfig grown{.train = {directory.write("g.csv", "x,label\n5,a\n,b\n9,b\n")},
                          .eval = {directory.write("e.csv", "x,label\n2,a\n")},
                          .missing_values = MissingValues::drop};
  const Datasets data = build_as_trained(config_of(grown), options, trained.train->spec());
  const float unit = 1 / std::sqrt(8.0F / 3);
  CHECK(values(all(data).inputs)[1] == Approx(7 * unit));
  CHECK(values(data.eval->next()->inputs)[0] == 0);
  CHECK(data.fingerprint == build(config_of(grown), {}).fingerprint);
  CHECK(std::ranges::count_if(told, [](const std::string& one) { return one.find("are left out") != one.npos; }) == 1);
}

TEST_CASE("balanced_sampling draws the classes of a table equally often", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text = "x,label\n";
  for (int i = 0; i < 400; ++i) text += std::to_string(i) + (i < 8 ? ",rare\n" : ",usual\n");
  DatasetConfig config = config_of({.train = {directory.write("t.csv", text)}});
  config.batch_size = 400;
  const auto num_rare = [&](bool balanced) {
    config.balanced_sampling = balanced;
    const Datasets data = build(config, {});
    CHECK(data.train->spec().class_counts == std::vector<std::int64_t>{8, 392});
    return data.train->next()->targets.eq(0).sum().item<std::int64_t>();
  };
  CHECK(num_rare(false) == 8);
  CHECK(std::abs(static_cast<double>(num_rare(true)) - 200) < 5 * 10);  // five standard deviations
  config = config_of({.train = {directory.write("v.csv", "x,label\n1,0.5\n")}, .label_type = LabelType::value});
  config.balanced_sampling = true;
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("doesn't tell the class of a sample"));
}

TEST_CASE("a second column of one name is a column of its own", "[dataset]") {
  const TemporaryDirectory directory;
  const auto inputs = [&](TableConfig config) {
    config.train = {directory.write("t.csv", "x,x,label,\n3000000000,5,a,1\n3000000001,-5,b,2\n")};
    config.feature_scaling = FeatureScaling::none;
    LoaderOptions options;
    std::string told;
    options.tell = [&](const std::string& what) { told += what; };
    const Floats read = values(all(build(config_of(config), options)).inputs);
    CHECK_THAT(told, Contains("column 2, another 'x', is called 'x.1'"));
    return read;
  };
  CHECK(inputs({.features = {"x", "x.1"}}) == Floats{3e9F, 5, 3e9F, -5});
  CHECK(inputs({.features = {"2", "4"}}) == Floats{5, 1, -5, 2});
  CHECK(inputs({.features = {"Unnamed: 3"}}) == Floats{1, 2});
}

TEST_CASE("a decimal comma of the training files is one in every other set", "[dataset][regression]") {
  const TemporaryDirectory directory;
  TableConfig config{.train = {directory.write("t.csv", "x;label\n1,5;a\n2,5;b\n")},
                     .eval = {directory.write("e.csv", "x;label\n1.500;a\n2.500;b\n")},
                     .feature_scaling = FeatureScaling::none};
  CHECK_THAT(error_of([&] { build(config_of(config), {}); }),
             Contains("e.csv:2: column 'x' should be a number, but is '1.500'"));
  config.eval = {directory.write("e.csv", "x;label\n3;a\n4,5;b\n")};
  CHECK(values(build(config_of(config), {}).eval->next()->inputs) == Floats{3, 4.5});
}

TEST_CASE("a column without a name takes no other's name", "[dataset][regression]") {
  const TemporaryDirectory directory;
  TableConfig config{.train = {directory.write("t.csv", ",0,1,label\n0,7,5,a\n1,7,-5,b\n")}, .features = {"1"}};
  config.feature_scaling = FeatureScaling::none;
  CHECK(values(all(build(config_of(config), {})).inputs) == Floats{5, -5});
}

TEST_CASE("classes that are one value in two spellings are refused", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const auto names = [&](const std::vector<std::string>& labels, std::vector<std::string> class_names = {}) {
    std::string text = "x,label\n";
    for (const std::string& label : labels) text += "1," + label + "\n";
    return build(config_of({.train = {directory.write("t.csv", text)}, .class_names = std::move(class_names)}), {})
        .train->spec()
        .class_names;
  };
  for (const auto& [first, second] : {std::pair("1", "1.0"),
                                      {"01", "1"},
                                      {"-1", "-1.0"},
                                      {"+1", "1"},
                                      {"1e0", "1"},
                                      {"0.0", "-0.0"},
                                      {"True", "true"},
                                      {"0.50", "0.5"}})
    CHECK_THAT(error_of([&] {
                 names({first, is_truth_value(first) ? "FALSE" : "0.25", second});
               }),
               Contains("t.csv:4: the label '" + std::string(second) + "' is the same value as '" + first + "'"));
  CHECK(names({"1", "01", "x"}).size() == 3);  // texts, as for pandas
  CHECK(names({"9007199254740992", "9007199254740993"}).size() == 2);
  CHECK(names({"1", "01"}, {"1", "01"}).size() == 2);  // as they are listed
}

TEST_CASE("a category in another spelling than the training rows' is refused, also beside rare ones",
          "[dataset][regression]") {
  const TemporaryDirectory directory;
  TableConfig config{.train = {directory.write("t.csv", "x,label\n1,a\n1,b\n1,a\n2,a\n1,b\n2,b\n")},
                     .eval = {directory.write("e.csv", "x,label\n1.0,a\n")}};
  config.categorical_columns = {"x"};
  for (const std::int64_t most : {1, 100}) {
    config.max_categories = most;
    CHECK_THAT(error_of([&] { build(config_of(config), {}); }),
               Contains("'1.0', which is the same value as '1' of the training rows"));
  }
}

TEST_CASE("truth values among numbers are refused, since pandas reads texts", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const auto built = [&](const std::string& cells, std::vector<std::string> categorical = {}) {
    TableConfig config{.train = {directory.write("t.csv", "x,label\n" + cells)},
                       .feature_scaling = FeatureScaling::none};
    config.categorical_columns = std::move(categorical);
    return values(all(build(config_of(config), {})).inputs);
  };
  CHECK(built("True,a\nfalse,b\n") == Floats{1, 0});
  CHECK_THAT(error_of([&] { built("True,a\n1,b\n0,a\n"); }),
             Contains("t.csv:3: column 'x' has truth values and numbers, and here 1"));
  CHECK_THAT(error_of([&] { built("5,a\n1,b\nfalse,a\n"); }), Contains("t.csv:4: column 'x'"));
  CHECK(built("True,a\n1,b\n", {"x"}).size() == 4);

  TableConfig values_of{.train = {directory.write("v.csv", "x,label\n1,2.5\n2,True\n")}};
  values_of.label_type = LabelType::value;
  CHECK_THAT(error_of([&] { build(config_of(values_of), {}); }),
             Contains("v.csv:3: the label 'label' has truth values and numbers, and here True"));
  values_of.train = {directory.write("w.csv", "x,label\n1,False\n2,True\n")};
  CHECK(values(all(build(config_of(values_of), {})).targets) == Floats{0, 1});
}

TEST_CASE("a number has one sign, and may have blanks around it in quotes, as in pandas", "[dataset][regression]") {
  CHECK(number_in("+1") == 1);
  CHECK(number_in("-1") == -1);
  for (const char* text : {"+-1", "-+1", "++1", "--1", "+ 1", "", " ", "+"}) CHECK_FALSE(number_in(text).has_value());
  for (const char* blanks : {"\t5", "5 ", " 5\n", "\r+5\v"}) {
    CHECK(number_in(blanks) == 5);
    CHECK(text_of_value(blanks) == "5");
  }
  CHECK_FALSE(number_in("True ").has_value());
  const TemporaryDirectory directory;
  TableConfig config{.train = {directory.write("t.csv", "x,label\n\"5 \",a\n6,b\n")}};
  config.feature_scaling = FeatureScaling::none;
  CHECK(values(all(build(config_of(config), {})).inputs) == Floats{5, 6});
  config.train = {directory.write("c.csv", "x,label\n1,\"1e5 \"\n2,1e5\n")};
  CHECK_THAT(error_of([&] { build(config_of(config), {}); }), Contains("c.csv:3: the label '1e5' is the same value"));
}

TEST_CASE("zones of times are hours and minutes", "[dataset][regression]") {
  const double noon = *date_in("2024-05-31 12:00Z");
  CHECK(date_in("2024-05-31 12:30+0030") == noon);  // in pandas.to_datetime
  CHECK(date_in("2024-05-31 12:30+00:30") == noon);
  CHECK(date_in("2024-05-31 06:30-0530") == noon);
  CHECK(date_in("2024-05-31 14:00+02") == noon);
  for (const char* zone : {"+2", "+020", "+02:", "+24", "+0260", "+02000"})
    CHECK_FALSE(date_in(std::string("2024-05-31 12:00") + zone).has_value());
}

TEST_CASE("numbers are scaled in double precision", "[dataset]") {
  const TemporaryDirectory directory;
  const auto inputs = [&](const std::string& first, const std::string& second) {
    return values(
        all(build(config_of({.train = {directory.write("t.csv", "x,label\n" + first + ",a\n" + second + ",b\n")}}), {}))
            .inputs);
  };
  for (const auto& [first, second] :
       {std::pair("1700000000", "1700000001"), {"16777216", "16777217"}, {"1e-300", "2e-300"}})
    CHECK(inputs(first, second) == Floats{-1, 1});
  const Floats seconds = inputs("2024-03-01 12:00:00", "2024-03-01 12:00:01");
  CHECK(seconds[0] == Approx(-1));
  CHECK(seconds[7] == Approx(1));
  const Floats zones = inputs("2024-03-01 14:00:00+02:00", "2024-03-01T12:00:00.5Z");
  CHECK(zones[0] == Approx(-1));
  CHECK(zones[5] == Approx(0).margin(1e-6));  // noon in UTC: half the circle
}

TEST_CASE("what pandas takes for no value is none in a column of numbers", "[dataset]") {
  const TemporaryDirectory directory;
  for (const std::string missing : {"", "NA", "n/a", "N/A", "#N/A", "#NA", "<NA>", "NaN", "nan", "-nan", "null", "NULL",
                                    "None", "?", "1.#QNAN", "-1.#IND"}) {
    INFO(missing);
    const std::string file = directory.write("t.csv", "x,label\n1,a\n" + missing + ",b\n3,a\n");
    CHECK(values(all(build(config_of({.train = {file},
                                      .missing_values = MissingValues::mean,
                                      .feature_scaling = FeatureScaling::none}),
                           {}))
                     .inputs) == Floats{1, 2, 3});
  }
}

TEST_CASE("an infinite number is refused at its place", "[dataset]") {
  const TemporaryDirectory directory;
  for (const std::string cell : {"inf", "-Infinity", "1e400"})
    CHECK_THAT(error_of([&] {
                 build(config_of({.train = {directory.write("t.csv", "x,label\n1,a\n" + cell + ",b\n")}}), {});
               }),
               Contains("t.csv:3: column 'x' is infinite"));
  TableConfig huge{.train = {directory.write("h.csv", "x,label\n1e200,a\n-1e200,b\n")}};
  CHECK(values(all(build(config_of(huge), {})).inputs) == Floats{1, -1});
  huge.feature_scaling = FeatureScaling::none;
  CHECK_THAT(error_of([&] { build(config_of(huge), {}); }), Contains("column 'x' has numbers up to 1e+200"));
}

TEST_CASE("a class may be called NA or None, in quotes or by name", "[dataset]") {
  const TemporaryDirectory directory;
  const auto names = [&](const std::string& text, TableConfig config = {}) {
    config.train = {directory.write("t.csv", text)};
    return build(config_of(config), {}).train->spec().class_names;
  };
  CHECK(names("x,label\n1,\"None\"\n2,b\n") == std::vector<std::string>{"None", "b"});
  CHECK(names("x,label\n1,None\n2,b\n", {.class_names = {"b", "None"}}) == std::vector<std::string>{"b", "None"});
  CHECK_THAT(error_of([&] { names("x,label\n1,None\n2,b\n"); }), Contains("t.csv:2: the label is missing"));
}

TEST_CASE("separator, decimal sign and header are found, told, and settable", "[dataset]") {
  const TemporaryDirectory directory;
  std::string told;
  const auto inputs = [&](const std::string& text, TableConfig config = {}, const std::string& name = "t.csv") {
    config.train = {directory.write(name, text)};
    config.feature_scaling = FeatureScaling::none;
    LoaderOptions options;
    told.clear();
    options.tell = [&](const std::string& what) { told += what; };
    return values(all(build(config_of(config), options)).inputs);
  };
  CHECK(inputs("x;y;label\n1,5;2,25;a\n3;4,5;b\n") == Floats{1.5, 2.25, 3, 4.5});
  CHECK_THAT(told, Contains("columns are separated by ';' and numbers have a decimal comma"));
  CHECK(inputs("1,5;2,25;a\n3;4,5;b\n", {.label = "3"}) == Floats{1.5, 2.25, 3, 4.5});
  CHECK_THAT(told, Contains("no line names the columns"));
  CHECK(inputs("Series 3\nx;y;label\n1,5;2;a\n3;4,5;b\n") == Floats{1.5, 2, 3, 4.5});
  CHECK_THAT(told, Contains("numbers have a decimal comma and 1 line before the table is passed over"));
  CHECK(inputs("x;y;label\n[m];[s];-\n1,5;2;a\n3;4,5;b\n", {.header_lines = std::int64_t{2}}) ==
        Floats{1.5, 2, 3, 4.5});
  CHECK(inputs("x\ty\tlabel\nc\tc\td\n\t\tclass\n1,5\t2\ta\n3\t4,5\tb\n") == Floats{1.5, 2, 3, 4.5});
  CHECK(inputs("sep=;\nx;label\n1;a\n2;b\n") == Floats{1, 2});
  CHECK(inputs("sep=,\r\nx,label\r\n1,a\r\n2,b\r\n") == Floats{1, 2});
  CHECK(inputs("x|label\n1|a, b\n2|c, d\n") == Floats{1, 2});
  CHECK(inputs("x:y:label\n0:1:a\n2:3:b\n") == Floats{0, 1, 2, 3});
  CHECK(inputs("A1 6 A3 a\nA2  7 A3 b\n", {.features = {"2"}, .label = "4"}) == Floats{6, 7});
  CHECK(inputs("x\tlabel\n1\t\"a\"\n2\t\"b\"\n", {}, "t.tsv") == Floats{1, 2});
  CHECK(inputs("x,label\r1,a\r2,b\r") == Floats{1, 2});
  CHECK(inputs("x;y;label\n1,5;3;a\n2,5;4;b\n", {.features = {"y"}, .decimal = DecimalSign::point}) == Floats{3, 4});
  CHECK(
      inputs("1;2,5\n3;4,5\n", {.label = "1", .separator = std::string(","), .header_lines = std::int64_t{0}}).size() ==
      2);
  CHECK_THAT(error_of([&] { inputs("x;y;label\n1,5;2.5;a\n3,5;4.5;b\n"); }),
             Contains("a decimal comma in column 1, and a decimal point in column 2"));
}

TEST_CASE("rows for a model of numbered columns have no header", "[dataset]") {
  const TemporaryDirectory directory;
  TableConfig config{.label = "4"};
  config.train = {directory.write("t.csv", "4.22,3.79,2.1,A\n1.29,2.56,2.02,B\n3.92,1.52,2.38,A\n1.1,2.2,3.3,B\n")};
  const DatasetConfig whole = config_of(config);
  const Datasets data = build(whole, {});
  const auto table = table_inputs_of(whole.source, data.train->spec());
  std::vector<std::int64_t> lines;
  const auto use = [&](const LineInput<at::Tensor>& input) {
    CHECK(input.error.empty());
    lines.push_back(input.line);
  };
  table->read("1,2,3\n2.5,3.1,0.2\n4.4,4.2,1.1\n", "in.csv", use);
  CHECK(lines == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("a category that differs from the training rows' by blanks is refused", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const std::string train = directory.write("t.csv", "x,city,label\n1,\" Rome\",a\n2,Oslo ,b\n");
  const auto inputs = [&](const std::string& rows) {
    const std::string eval = directory.write("e.csv", "x,city,label\n" + rows);
    return values(build(config_of({.train = {train}, .eval = {eval}, .feature_scaling = FeatureScaling::none}), {})
                      .eval->next()
                      ->inputs);
  };
  CHECK(inputs("1, Oslo,a\n2,\" Rome\",b\n3,Paris,a\n") == Floats{1, 0, 1, 2, 1, 0, 3, 0, 0});
  CHECK_THAT(error_of([&] { inputs("1, Rome,a\n"); }), Contains("'Rome', which is ' Rome' of the training rows"));
}

TEST_CASE("a row to predict that training would leave out is an error at its line", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const DatasetConfig whole =
      config_of({.train = {directory.write("t.csv", "x,city,label\n1,Rome,a\n2,Oslo,b\n3,,b\n")},
                 .missing_values = MissingValues::drop,
                 .feature_scaling = FeatureScaling::none});
  const Datasets data = build(whole, {});
  std::vector<std::pair<std::int64_t, std::string>> wrong;
  Floats numbers;
  table_inputs_of(whole.source, data.train->spec())
      ->read("x,city\n4,Rome\n5,\n6,NA\n7,\"\"\n,Oslo\n8,Oslo\n", "in.csv", [&](const LineInput<at::Tensor>& input) {
        if (input.content)
          numbers.push_back(values(*input.content)[0]);
        else
          wrong.emplace_back(input.line, input.error);
      });
  CHECK(numbers == Floats{4, 8});
  REQUIRE(wrong.size() == 4);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    CHECK(wrong[i].first == static_cast<std::int64_t>(i) + 3);
    CHECK_THAT(wrong[i].second, Contains(i < 3 ? "column 'city' is missing" : "column 'x' is missing"));
  }
}

TEST_CASE("the training files' header decides on that of every other file", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const auto lines_of = [&](const std::string& train, const std::string& label, const std::string& content) {
    const DatasetConfig whole = config_of({.train = {directory.write("t.csv", train)}, .label = label});
    const Datasets data = build(whole, {});
    const Datasets described = described_datasets(description_of(data.train->spec()), data.fingerprint);
    std::vector<std::int64_t> lines;
    table_inputs_of(whole.source, described.train->spec())
        ->read(content, "in.csv", [&](const LineInput<at::Tensor>& input) {
          CHECK(input.error.empty());
          lines.push_back(input.line);
        });
    return lines;
  };
  // One row is too few to tell a header of numbers from a row.
  const std::string years = "2019,2020,2021,label\n1.5,2.5,1.5,a\n3.5,4.5,3.5,b\n1.5,2.5,1.5,a\n";
  for (const char* label : {"label", "4"})
    CHECK(lines_of(years, label, "2019,2020,2021\n5,6,7\n") == std::vector<std::int64_t>{2});
  const std::string numbered = "0,1,2,3\n1.5,2.5,1.5,a\n3.5,4.5,3.5,b\n1.5,2.5,1.5,a\n";
  CHECK(lines_of(numbered, "4", "0,1,2,3\n5,6,7,a\n") == std::vector<std::int64_t>{2});

  const std::string train = directory.write("n.csv", "1.5,2.5,a\n3.5,4.5,b\n1.5,2.5,a\n");
  const std::string eval = directory.write("e.csv", "1,2,a\n2.5,4.5,b\n2.5,3.5,a\n");
  const Datasets data = build(config_of({.train = {train}, .eval = {eval}, .label = "3"}), {});
  CHECK(data.eval->num_samples() == 3);
}

TEST_CASE("an encoding other than UTF-8 is refused at its place, or named", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string latin1 = directory.write("l.csv", "x,c,label\n1,caf\xe9,a\n2,th\xe9,b\n");
  const auto categories = [&](const std::string& file, const std::string& encoding) {
    return build(config_of({.train = {file}, .features = {"c"}, .encoding = encoding}), {})
        .train->spec()
        .table->columns[0]
        .categories;
  };
  CHECK_THAT(error_of([&] { categories(latin1, "utf-8"); }),
             Contains("l.csv:2: byte 6 of the line, 0xe9, is not UTF-8"));
  const std::vector<std::string> right{"caf\xc3\xa9", "th\xc3\xa9"};
  CHECK(categories(latin1, "latin1") == right);
  CHECK(categories(latin1, "windows-1252") == right);
  std::string wide = "\xff\xfe";
  for (const char byte : core::read_file(latin1)) wide += std::string{byte, '\0'};
  CHECK(categories(directory.write("u.csv", wide), "utf-16") == right);
  CHECK_THAT(error_of([&] { categories(directory.write("u.csv", wide), "utf-8"); }), Contains("u.csv:1: byte"));
  CHECK_THAT(error_of([&] { categories(latin1, "ascii"); }),
             Contains("l.csv:2: byte 6 of the line, 0xe9, is not ascii"));
  CHECK_THAT(error_of([&] { categories(latin1, "latin-seven"); }), Contains("no encoding is called 'latin-seven'"));
}

TEST_CASE("columns of another set are found by their names", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string train = directory.write("t.csv", "a,c,label\n0,red,y\n1,blue,n\n");
  const auto evaluate = [&](const std::string& text) {
    return build(config_of({.train = {train},
                            .eval = {directory.write("e.csv", text)},
                            .feature_scaling = FeatureScaling::none}),
                 {})
        .eval->next();
  };
  const std::optional<Batch> batch = evaluate("note,c,label,a\nhello,red,y,7\nthere,green,n,8\n");
  CHECK(values(batch->inputs) == Floats{7, 0, 1, 8, 0, 0});
  CHECK(classes(batch->targets) == Classes{1, 0});
  CHECK_THAT(error_of([&] { evaluate("a,label\n1,y\n"); }), Contains("there is no column 'c'"));
}

TEST_CASE("a trained model's classes decide, whatever the training file has become", "[dataset]") {
  const TemporaryDirectory directory;
  TableConfig table{.train = {directory.write("t.csv", "x,label\n0,a\n1,b\n2,c\n")},
                    .eval = {directory.write("e.csv", "x,label\n0,a\n2,c\n")}};
  LoaderOptions options;
  options.trained = std::make_shared<const SampleSpec>(build(config_of(table), {}).train->spec());
  directory.write("t.csv", "x,label\n0,a\n1,z\n2,c\n");
  const Datasets data = build(config_of(table), options);
  CHECK(data.train == nullptr);
  CHECK(classes(data.eval->next()->targets) == Classes{0, 2});
  directory.write("e.csv", "x,label\n0,a\n2,z\n");
  CHECK_THAT(error_of([&] { build(config_of(table), options); }),
             Contains("e.csv:3: the label 'z' is none of the classes"));
}

TEST_CASE("no target is the mark of a skipped sample", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = config_of({.train = {directory.write("t.csv", "x,y\n1,-0.0\n2,1\n3,-0.0\n")},
                                    .label = "y",
                                    .label_type = LabelType::value});
  config.on_bad_sample = OnBadSample::skip;
  const std::optional<Batch> batch = build(config, {}).train->next();
  CHECK(values(batch->targets) == Floats{0, 1, 0});
  CHECK(batch->indices == Classes{0, 1, 2});
}

}  // namespace trainctl::dataset::table_test
