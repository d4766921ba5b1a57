#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>

#include "support/python.h"
#include "tracking/sinks.h"
#include "tracking/trackers/live.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;
using nlohmann::json;
using testing::TemporaryDirectory;

namespace {

/// What TensorBoard reads in the run directory.
json read_by_tensorboard(const TemporaryDirectory& directory) {
  const std::string output = (directory / "read.json").string();
  testing::run_reference("tensorboard_events.py", {(directory / "tensorboard").string(), output});
  return json::parse(testing::content(output));
}

std::set<std::filesystem::path> event_files(const TemporaryDirectory& directory) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "tensorboard")) files.insert(entry.path());
  return files;
}

std::vector<std::int64_t> steps_of(const json& curve) {
  std::vector<std::int64_t> steps;
  for (const json& point : curve) steps.push_back(point[0].get<std::int64_t>());
  return steps;
}

/// metrics.jsonl and TensorBoard's files, as a training writes them.
struct Curves {
  explicit Curves(const TemporaryDirectory& directory, std::int64_t first_step = 0)
      : records(make_jsonl({.run_directory = directory.path(), .resumed = first_step > 0, .first_step = first_step})),
        events(make_live_delivery({.run_directory = directory.path(),
                                   .run_name = "demo",
                                   .config = {{"optimizer.kind", "adamw"}, {"optimizer.lr", "0.001"}},
                                   .target = {.kind = "tensorboard"}})) {}
  void on(const Event& event) {
    records->on(event);
    events->on(event);
  }

  std::unique_ptr<Sink> records;
  std::unique_ptr<Sink> events;
};

}  // namespace

TEST_CASE("the event file begins with the record that TensorFlow writes", "[tracking]") {
  const TemporaryDirectory directory;
  Curves(directory).on(testing::step_at(1));
  REQUIRE(event_files(directory).size() == 1);
  const std::filesystem::path file = *event_files(directory).begin();
  CHECK(file.filename().string().starts_with("events.out.tfevents.1"));
  const std::string bytes = testing::content(file);
  // Length 24, and the masked CRC32C of these eight bytes as TensorFlow's files begin.
  CHECK(bytes.substr(0, 12) == std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  CHECK(bytes.find("brain.Event:2") != std::string::npos);
}

TEST_CASE("the real TensorBoard reads the curves", "[tracking]") {
  const TemporaryDirectory directory;
  Curves run(directory);
  for (const std::int64_t number : {20, 40, 60}) {
    StepLogged step = testing::step_at(number);
    step.loss = 1.0 / static_cast<double>(number);
    if (number > 20) step.grad_norm = 1.5;
    run.on(step);
  }
  run.on(testing::evaluation_at(60));
  const json read = read_by_tensorboard(directory);  // while the run goes on: each event is flushed
  CHECK(read.at("file_version") == 2);
  const json& curves = read.at("curves");
  CHECK(steps_of(curves.at("train/loss")) == std::vector<std::int64_t>{20, 40, 60});
  CHECK(curves.at("train/loss")[1][1].get<float>() == 1.0f / 40);
  CHECK(curves.at("train/lr")[0][1].get<float>() == 0.0012f);
  CHECK(steps_of(curves.at("train/grad_norm")) == std::vector<std::int64_t>{40, 60});
  CHECK(curves.at("train/samples_per_s")[2][1].get<float>() == 21034.4f);
  CHECK(steps_of(curves.at("eval/accuracy")) == std::vector<std::int64_t>{60});
  CHECK(curves.at("eval/accuracy")[0][1].get<float>() == 0.9162f);
  CHECK(curves.at("eval/loss")[0][1].get<float>() == 0.29f);
}

TEST_CASE("TensorBoard has config, hyperparameters, confusion matrix and classes", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "config.yaml", "name: demo\n");
  const auto summary = make_summary({.run_directory = directory.path()});
  Curves run(directory);
  run.on(testing::step_at(20));
  Evaluated evaluated = testing::evaluation_at(20);
  evaluated.details =
      R"({"class_names":["cat","dog"],"per_class_accuracy":[0.75,null],"per_class_f1":[0.5,null],"confusion":[[3,1],[0,0]]})";
  for (const Event& event : {Event(evaluated), Event(testing::ended(Outcome::finished, 20))}) {
    summary->on(event);
    run.on(event);
  }
  const json read = read_by_tensorboard(directory);
  CHECK(read.at("texts").at("config") == "```yaml\nname: demo\n```\n");
  CHECK(read.at("texts").at("eval/per_class") ==
        "| class | accuracy | F1 |\n|---|---|---|\n| cat | 0.75 | 0.5 |\n| dog | none | none |\n");
  CHECK(read.at("images").at("eval/confusion") == json({480, 480}));
  CHECK(read.at("hparams") == json::parse(R"({"values":{"optimizer.kind":"adamw","optimizer.lr":0.001},"status":1})"));
}

TEST_CASE("TensorBoard has histograms of the weights, and their norms as curves", "[tracking]") {
  const TemporaryDirectory directory;
  Curves run(directory);
  run.on(ParametersMeasured{
      .step = 10,
      .tensors = {{.name = "weight/fc.bias", .norm = 1.5, .histogram = {.low = -1, .high = 2, .counts = {3, 0, 1}}},
                  {.name = "gradient/fc.bias", .norm = std::nan(""), .histogram = {}}}});
  run.on(testing::step_at(10));
  const json read = read_by_tensorboard(directory);
  CHECK(read.at("histograms") == json::parse(R"({"parameters/weight/fc.bias": [[-1, 0, 3], [0, 1, 0], [1, 2, 1]]})"));
  CHECK(read.at("curves").at("parameters/norm/weight/fc.bias") == json::parse("[[10, 1.5]]"));
  CHECK(read.at("curves").at("parameters/norm/gradient/fc.bias") == json::parse(R"([[10, "nan"]])"));
}

TEST_CASE("TensorBoard has the samples of the last evaluation, as pictures or in a table", "[tracking]") {
  const TemporaryDirectory directory;
  const auto summary = make_summary({.run_directory = directory.path()});
  Curves run(directory);
  run.on(testing::step_at(20));
  const std::string document =
      R"({"step": 20, "first": [{"sample": 4, "loss": 0.25, "label": "cat", "prediction": "dog", "picture": "data:image/png;base64,iVBORw=="}],
          "worst": [{"sample": 7, "loss": 3.5, "label": "a|b", "text": "two\nlines"},
                    {"sample": 8, "loss": 2.5, "row": {"age": "41"}}]})";
  for (const Event& event : {Event(SamplesPredicted{document}), Event(testing::evaluation_at(20)),
                             Event(testing::ended(Outcome::finished, 20))}) {
    summary->on(event);
    run.on(event);
  }
  const json read = read_by_tensorboard(directory);
  CHECK(read.at("captions").at("eval/first/01") == "sample 4: cat, predicted dog, loss 0.25");
  CHECK(read.at("texts").at("eval/worst") ==
        "| sample | loss | label | text | age |\n|---|---|---|---|---|\n"
        "| 7 | 3.5 | a\\|b | two lines |  |\n| 8 | 2.5 |  |  | 41 |\n");
}

TEST_CASE("a resumed run writes a new file, and TensorBoard sees each step once", "[tracking]") {
  const TemporaryDirectory directory;
  {
    Curves run(directory);
    for (const std::int64_t number : {10, 20, 30, 40}) run.on(testing::step_at(number));
    run.on(testing::evaluation_at(40));
  }
  const auto before = event_files(directory);
  {
    Curves run(directory, 20);
    for (const std::int64_t number : {30, 40, 50}) run.on(testing::step_at(number));
  }
  const auto after = event_files(directory);
  REQUIRE(before.size() == 1);
  REQUIRE(after.size() == 1);
  CHECK(*before.begin() < *after.begin());  // TensorBoard takes the new one for a later file
  const json read = read_by_tensorboard(directory);
  const json& curves = read.at("curves");
  CHECK(steps_of(curves.at("train/loss")) == std::vector<std::int64_t>{10, 20, 30, 40, 50});
  CHECK((!curves.contains("eval/loss") || curves.at("eval/loss").empty()));
}

TEST_CASE("a run that resumes where its records end goes on in its event file", "[tracking]") {
  const TemporaryDirectory directory;
  for (const std::int64_t first : {0, 20}) {
    Curves run(directory, first);
    for (const std::int64_t step : {10, 20}) run.on(testing::step_at(first + step));
  }
  CHECK(event_files(directory).size() == 1);
  const json read = read_by_tensorboard(directory);
  CHECK(steps_of(read.at("curves").at("train/loss")) == std::vector<std::int64_t>{10, 20, 30, 40});
}

TEST_CASE("after a rollback TensorBoard sees the steps that count", "[tracking]") {
  const TemporaryDirectory directory;
  Curves run(directory);
  for (const std::int64_t number : {10, 20, 30, 20, 30}) run.on(testing::step_at(number));
  const json read = read_by_tensorboard(directory);
  CHECK(steps_of(read.at("curves").at("train/loss")) == std::vector<std::int64_t>{10, 20, 30});
}

TEST_CASE("a curve may hold values that are no numbers", "[tracking]") {
  const TemporaryDirectory directory;
  Curves run(directory);
  StepLogged step = testing::step_at(10);
  step.loss = std::nan("");
  run.on(step);
  const json read = read_by_tensorboard(directory);
  CHECK(read.at("curves").at("train/loss") == json::parse(R"([[10, "nan"]])"));
}
