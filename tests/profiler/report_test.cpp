#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "profiler/profiler.h"

namespace trainctl {
namespace {

ProfileSummary example() {
  ProfileSummary summary;
  summary.num_steps = 3;
  summary.step_ms = 200;
  summary.split_ms = {{"data", 1}, {"forward", 79}, {"other", 120}};
  summary.operators = {
      {.name = "aten::mkldnn_convolution", .shapes = std::string(300, 'x'), .calls = 60, .self_ms = 50, .share = 0.25},
      {.name = "autograd::engine::evaluate_function: " + std::string(80, 'B'),
       .shapes = "",
       .calls = 4,
       .self_ms = 1,
       .share = 0.005}};
  summary.peak_mib_by_span = {{"forward", 512.25}};
  summary.peak_memory_mib = 600;
  summary.traces = {"run/profile/host_1.2.pt.trace.json"};
  return summary;
}

TEST_CASE("the table fits a terminal and holds every number", "[profiler]") {
  const std::string table = format_table(example());
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
  for (const char* part : {"200.00 ms (mean of 3)", "39.5 %", "512.2", "600.0", "20     50.00   25.0 %", "1.3",
                           "25.0 %", "trace: run/profile/host_1.2.pt.trace.json"}) {
    INFO(part << "\n" << table);
    CHECK(table.find(part) != std::string::npos);
  }
}

TEST_CASE("the JSON document has the same numbers", "[profiler]") {
  const auto document = nlohmann::json::parse(format_json(example()));
  CHECK(document["num_steps"] == 3);
  CHECK(document["step_ms"] == 200);
  CHECK(document["split"][1]["span"] == "forward");
  CHECK(document["split"][1]["share"] == Approx(0.395));
  CHECK(document["operators"][0]["calls_per_step"] == 20);
  CHECK(document["peak_mib_by_span"]["forward"] == 512.25);
  CHECK(document["traces"][0] == "run/profile/host_1.2.pt.trace.json");
}

TEST_CASE("a profile of no step says so", "[profiler]") {
  CHECK(format_table({}) == "no step was recorded\n");
  CHECK(nlohmann::json::parse(format_json({}))["num_steps"] == 0);
}

}  // namespace
}  // namespace trainctl
