#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tracking/sinks.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;
using nlohmann::ordered_json;
using testing::content;
using testing::TemporaryDirectory;

TEST_CASE("the summary says everything about the run", "[tracking]") {
  const TemporaryDirectory directory;
  make_summary({.run_directory = directory.path()})
      ->on(RunFinished{.outcome = Outcome::finished,
                       .error = "",
                       .steps = 1876,
                       .final_metrics = {{"loss", 0.25}, {"accuracy", 0.915}},
                       .best_metrics = {{"loss", 0.24}, {"accuracy", 0.918}},
                       .best_step = 1407,
                       .wall_s = 90.5,
                       .time_to_first_step_s = 0.75,
                       .median_step_ms = 12.5,
                       .samples_per_s = 10000,
                       .data_wait_share = 0.003,
                       .data_workers = 2,
                       .peak_memory_mib = 812.5,
                       .num_parameters = 421642,
                       .num_skipped = 3,
                       .provenance = {{"seed", "1"}, {"config_hash", "abc"}}});
  const auto expected = ordered_json::parse(R"({
    "outcome": "finished", "steps": 1876, "final_metrics": {"loss": 0.25, "accuracy": 0.915},
    "best_metrics": {"loss": 0.24, "accuracy": 0.918}, "best_step": 1407, "wall_s": 90.5, "time_to_first_step_s": 0.75,
    "median_step_ms": 12.5, "samples_per_s": 10000.0, "data_wait_share": 0.003, "data_wait_cause": "none",
    "data_workers": 2, "peak_memory_mib": 812.5,
    "num_parameters": 421642, "skipped_steps": 3, "provenance": {"config_hash": "abc", "seed": "1"}})");
  CHECK(content(directory / "summary.json") == expected.dump(2) + "\n");
}

TEST_CASE("a summary tells a stopped run from a failed one, whatever is in the message", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_summary({.run_directory = directory.path()});
  sink->on(testing::ended(Outcome::stopped, 5));
  CHECK(ordered_json::parse(content(directory / "summary.json"))["outcome"] == "stopped");
  RunFinished failure = testing::ended(Outcome::failed, 5);
  failure.error = "cannot read \"a\"\n\xff";
  sink->on(failure);
  const auto failed = ordered_json::parse(content(directory / "summary.json"));
  CHECK(failed["outcome"] == "failed");
  CHECK(failed["error"] == "cannot read \"a\"\n\xef\xbf\xbd");
}

TEST_CASE("a summary of a run that diverged is valid JSON", "[tracking]") {
  const TemporaryDirectory directory;
  RunFinished diverged = testing::ended(Outcome::finished, 5);
  diverged.final_metrics = {{"loss", std::nan("")}};
  diverged.wall_s = HUGE_VAL;
  make_summary({.run_directory = directory.path()})->on(diverged);
  const auto summary = ordered_json::parse(content(directory / "summary.json"));
  CHECK(summary["final_metrics"]["loss"].is_null());
  CHECK(summary["wall_s"].is_null());
  CHECK(summary["non_finite"] == true);
}

TEST_CASE("the last evaluation is kept with its details", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_summary({.run_directory = directory.path()});
  sink->on(testing::evaluation_at(10));
  CHECK(content(directory / "evaluation.json") ==
        R"({"step":10,"metrics":{"loss":0.29,"accuracy":0.9162},"seconds":1.4})"
        "\n");
  Evaluated last = testing::evaluation_at(20);
  last.details = R"({"confusion_matrix":[[9,1],[0,10]]})";
  sink->on(last);
  CHECK(content(directory / "evaluation.json") ==
        R"({"step":20,"metrics":{"loss":0.29,"accuracy":0.9162},"seconds":1.4,)"
        R"("details":{"confusion_matrix":[[9,1],[0,10]]}})"
        "\n");
}

TEST_CASE("no start inherits a summary, and a resumed one keeps the evaluation", "[tracking]") {
  const TemporaryDirectory directory;
  for (const char* name : {"summary.json", "evaluation.json"}) testing::write(directory / name, "{}\n");
  make_summary({.run_directory = directory.path(), .resumed = true, .first_step = 3});
  CHECK_FALSE(std::filesystem::exists(directory / "summary.json"));
  CHECK(std::filesystem::exists(directory / "evaluation.json"));
  make_summary({.run_directory = directory.path()});
  CHECK(std::filesystem::is_empty(directory.path()));
}
