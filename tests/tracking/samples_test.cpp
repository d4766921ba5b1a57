#include <catch2/catch.hpp>

#include "tracking/sinks.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;
using testing::content;
using testing::TemporaryDirectory;

TEST_CASE("each rank records the samples that it took, a line for each micro-batch", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_samples({.run_directory = directory.path(), .rank = 2});
  sink->on(BatchTaken{.step = 7, .epoch = 1, .first = 96, .count = 16});
  sink->on(testing::step_at(7));
  sink->on(BatchTaken{.step = 8, .epoch = 2, .first = 0, .count = 9});
  CHECK(content(directory / "logs" / "samples_rank_2.jsonl") ==
        "{\"step\":7,\"epoch\":1,\"first\":96,\"count\":16}\n{\"step\":8,\"epoch\":2,\"first\":0,\"count\":9}\n");
}

TEST_CASE("a run that goes back takes back what all ranks recorded since", "[tracking]") {
  const TemporaryDirectory directory;
  cut_back_samples(directory.path(), 5);  // nothing there
  for (const std::int64_t rank : {0, 3}) {
    const auto sink = make_samples({.run_directory = directory.path(), .rank = rank});
    for (std::int64_t step = 1; step <= 9; ++step) sink->on(BatchTaken{.step = step, .first = step, .count = 1});
  }
  const std::filesystem::path other = directory / "logs" / "rank_3.log";
  testing::write(other, "not a record\n");
  cut_back_samples(directory.path(), 5);
  for (const char* name : {"samples_rank_0.jsonl", "samples_rank_3.jsonl"})
    CHECK(testing::lines_of_json(directory / "logs" / name).size() == 5);
  CHECK(content(other) == "not a record\n");
}

TEST_CASE("a rollback leaves one record for each micro-batch of the steps that count", "[tracking][regression]") {
  const TemporaryDirectory directory;
  const auto sink = make_samples({.run_directory = directory.path(), .rank = 0});
  for (const std::int64_t first : {0, 100}) {
    for (std::int64_t step = 1 + (first > 0 ? 2 : 0); step <= 4; ++step)
      sink->on(BatchTaken{.step = step, .first = first + step, .count = 1});
    if (first == 0) sink->on(RolledBack{.step = 2});
  }
  std::vector<std::int64_t> samples;
  for (const auto& record : testing::lines_of_json(directory / "logs" / "samples_rank_0.jsonl"))
    samples.push_back(record["first"].get<std::int64_t>());
  CHECK(samples == std::vector<std::int64_t>{1, 2, 103, 104});
}

TEST_CASE("samples are recorded where that is asked for, on ranks without other files too", "[tracking]") {
  const TemporaryDirectory directory;
  TrackingConfig config;
  build(config, {.run_directory = directory / "plain", .console = Console::quiet});
  CHECK_FALSE(std::filesystem::exists(directory / "plain" / "logs"));
  config.log_sample_ids = true;
  build(config, {.run_directory = directory / "ranks", .console = Console::quiet, .records = Records::none, .rank = 1});
  CHECK(std::filesystem::exists(directory / "ranks" / "logs" / "samples_rank_1.jsonl"));
  CHECK_FALSE(std::filesystem::exists(directory / "ranks" / "metrics.jsonl"));
}
