#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "tracking/sinks.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;
using testing::content;
using testing::TemporaryDirectory;

namespace {

std::string line(int step, const std::string& event = "step") {
  return R"({"event":")" + event + R"(","step":)" + std::to_string(step) + R"(,"loss":0.5})" + "\n";
}

}  // namespace

TEST_CASE("a step is one line with its keys in order", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_jsonl({.run_directory = directory.path(), .unix_time = [] { return 1795705608.1234; }});
  StepLogged step = testing::step_at(120);
  sink->on(step);
  step.grad_norm = 1.5;
  step.loss_scale = 65536;
  step.num_skipped = 2;
  sink->on(step);
  CHECK(content(directory / "metrics.jsonl") ==
        R"({"event":"step","step":120,"epoch":1,"loss":0.43125,"lr":0.0012,"samples_per_s":21034.4,"memory_mib":812.4,)"
        R"("data_wait_ms":0.018,"step_ms":6.0,"skipped_steps":0,"time":1795705608.123})"
        "\n"
        R"({"event":"step","step":120,"epoch":1,"loss":0.43125,"lr":0.0012,"grad_norm":1.5,"samples_per_s":21034.4,)"
        R"("memory_mib":812.4,"data_wait_ms":0.018,"step_ms":6.0,"loss_scale":65536.0,"skipped_steps":2,)"
        R"("time":1795705608.123})"
        "\n");
}

TEST_CASE("an evaluation is one line with its metrics; what isn't for the file stays out", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_jsonl({.run_directory = directory.path(), .unix_time = [] { return 1795705608.5; }});
  sink->on(testing::started(10));
  sink->on(Progress{.step = 1, .phase = "train", .done = 1, .total = 2});
  sink->on(testing::evaluation_at(469));
  sink->on(CheckpointSaved{.step = 469, .path = "x", .seconds = 0.1});
  sink->on(Notice{Level::info, "hello"});
  sink->on(testing::ended(Outcome::finished, 10));
  CHECK(content(directory / "metrics.jsonl") ==
        R"({"event":"eval","step":469,"loss":0.29,"accuracy":0.9162,"seconds":1.4,"time":1795705608.5})"
        "\n");
}

TEST_CASE("numbers read back exactly", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_jsonl({.run_directory = directory.path()});
  const std::vector<double> values{0.1 + 0.2,          1.0 / 3, 5e-324, std::numeric_limits<double>::max(), -0.0, 1e-8,
                                   123456789.123456789};
  for (const double value : values) {
    StepLogged step = testing::step_at(1);
    step.loss = value;
    sink->on(step);
  }
  const auto records = testing::lines_of_json(directory / "metrics.jsonl");
  REQUIRE(records.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(records[i]["loss"].get<double>() == values[i]);
    CHECK_FALSE(records[i].contains("non_finite"));
  }
}

TEST_CASE("a loss that is not a number is null, and said", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_jsonl({.run_directory = directory.path()});
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    StepLogged step = testing::step_at(1);
    step.loss = value;
    sink->on(step);
    sink->on(Evaluated{.step = 1, .metrics = {{"loss", value}}, .details = "", .seconds = 1});
  }
  const auto records = testing::lines_of_json(directory / "metrics.jsonl");
  REQUIRE(records.size() == 6);
  for (const auto& record : records) {
    CHECK(record["loss"].is_null());
    CHECK(record["non_finite"] == true);
  }
}

TEST_CASE("each line is in the file before the next event", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_jsonl({.run_directory = directory.path()});
  for (int step = 1; step <= 3; ++step) {
    sink->on(testing::step_at(step));
    CHECK(testing::lines_of_json(directory / "metrics.jsonl").size() == static_cast<std::size_t>(step));
  }
}

TEST_CASE("a resumed run cuts off what comes again and goes on", "[tracking]") {
  const TemporaryDirectory directory;
  const std::string kept = line(10) + line(20) + line(20, "eval");
  testing::write(directory / "metrics.jsonl", kept + line(30) + line(30, "eval") + line(40));
  const auto sink = make_jsonl({.run_directory = directory.path(), .resumed = true, .first_step = 20});
  CHECK(content(directory / "metrics.jsonl") == kept);
  sink->on(testing::step_at(30));
  const auto records = testing::lines_of_json(directory / "metrics.jsonl");
  REQUIRE(records.size() == 4);
  CHECK(records[3]["step"] == 30);
  CHECK_FALSE(std::filesystem::exists(directory / "metrics.jsonl.tmp"));
}

TEST_CASE("a resumed run drops lines that a kill left torn", "[tracking]") {
  const TemporaryDirectory directory;
  const auto resume = [&](const std::string& bytes) {
    testing::write(directory / "metrics.jsonl", bytes);
    make_jsonl({.run_directory = directory.path(), .resumed = true, .first_step = 100});
    return content(directory / "metrics.jsonl");
  };
  CHECK(resume(line(10) + R"({"event":"step","st)") == line(10));
  CHECK(resume(line(10) + R"({"event":"step","step":20,"loss":0.5})") == line(10));  // whole, but for its end
  CHECK(resume(line(10) + R"({"event":"st{"event":"step","step":20})" + "\n" + line(30)) == line(10) + line(30));
  CHECK(resume(line(10) + std::string(4, '\0') + "\n" + "[1]\n" + line(30)) == line(10) + line(30));
  CHECK(resume("").empty());
  CHECK(resume(line(10) + line(100)) == line(10) + line(100));
}

TEST_CASE("a resumed run without metrics starts them, a new run starts them anew", "[tracking]") {
  const TemporaryDirectory directory;
  make_jsonl({.run_directory = directory.path(), .resumed = true, .first_step = 5});
  CHECK(content(directory / "metrics.jsonl").empty());
  testing::write(directory / "metrics.jsonl", line(10));
  make_jsonl({.run_directory = directory.path()});
  CHECK(content(directory / "metrics.jsonl").empty());
}

TEST_CASE("metrics that can't be opened are an error that names them", "[tracking]") {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "metrics.jsonl");
  CHECK_THROWS_WITH(make_jsonl({.run_directory = directory.path()}), Catch::Contains("metrics.jsonl: Is a directory"));
}
