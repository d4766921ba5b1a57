#include <catch2/catch.hpp>

#include "tracking/sinks.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;
using nlohmann::ordered_json;
using testing::content;
using testing::TemporaryDirectory;

TEST_CASE("notices are kept with the step after which they came", "[tracking]") {
  const TemporaryDirectory directory;
  const TrackerOptions options{.run_directory = directory.path(), .unix_time = [] { return 1.0; }};
  {
    const auto sink = make_notices(options);
    sink->on(Notice{Level::info, "begins"});
    sink->on(StepLogged{.step = 20});
    sink->on(Notice{Level::warning, "slow"});
  }
  const std::string lines = content(directory / "notices.jsonl");
  CHECK(lines ==
        "{\"level\":\"info\",\"step\":0,\"text\":\"begins\",\"time\":1.0}\n"
        "{\"level\":\"warning\",\"step\":20,\"text\":\"slow\",\"time\":1.0}\n");
  TrackerOptions resumed = options;
  resumed.resumed = true;
  make_notices(resumed)->on(Notice{Level::info, "goes on"});
  CHECK(content(directory / "notices.jsonl").starts_with(lines));
  make_notices(options);
  CHECK_FALSE(std::filesystem::exists(directory / "notices.jsonl"));
}

TEST_CASE("predictions are those of the newest evaluation", "[tracking]") {
  const TemporaryDirectory directory;
  const auto sink = make_summary({.run_directory = directory.path()});
  sink->on(SamplesPredicted{.document = "{\"step\":1}"});
  sink->on(SamplesPredicted{.document = "{\"step\":2}"});
  CHECK(content(directory / "predictions.json") == "{\"step\":2}\n");
  make_summary({.run_directory = directory.path()});
  CHECK_FALSE(std::filesystem::exists(directory / "predictions.json"));
}
