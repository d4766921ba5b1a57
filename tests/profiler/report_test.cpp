#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "profiler/summary.h"

namespace trainctl::profiler {
namespace {

ProfileSummary example() {
  ProfileSummary summary;
  summary.run.directory = "run";
  summary.steps.each.resize(3);
  summary.steps.time = {.mean_ms = 200, .median_ms = 200, .min_ms = 190, .max_ms = 210};
  summary.steps.split[static_cast<std::size_t>(Part::forward)] = {.mean_ms = 79, .min_ms = 78, .max_ms = 80};
  summary.operators.rows = {{.name = "aten::mkldnn_convolution",
                             .shapes = std::string(300, 'x'),
                             .dtype = "fp32",
                             .phase = "forward",
                             .calls = 20,
                             .self_ms = 50,
                             .device_ms = {},
                             .roofline_efficiency = {},
                             .flags = {}}};
  summary.memory.peak.allocated = 600;
  summary.traces = {{.path = "run/profile/host_1.2.pt.trace.json", .dropped = "12 events: arrows"}};
  summary.findings = {{.rule = "slow_loader",
                       .what = "Steps wait for data",
                       .evidence = "40 % of a step",
                       .changes = {{"dataset.num_workers", "auto"}},
                       .gain_ms = 80,
                       .gain = "up to 80 ms a step"}};
  return summary;
}

TEST_CASE("the text fits a terminal, and has the numbers and the findings", "[profiler]") {
  const std::string text = format_text(example());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
  for (const char* part :
       {"200.00 ms (mean of 3)", "39.5 %", "600.0 MiB", "20.0     50.00   25.0 %", "1. Steps wait for data",
        "change:   dataset: {num_workers: auto}", "gain:     up to 80 ms a step",
        "trace:  run/profile/host_1.2.pt.trace.json", "left out to stay below its limit: 12 events"}) {
    INFO(part << "\n" << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("the JSON document has the same numbers", "[profiler]") {
  const auto document = nlohmann::json::parse(format_json(example()));
  CHECK(document["steps"]["num"] == 3);
  CHECK(document["steps"]["mean_ms"] == 200);
  CHECK(document["steps"]["split"][2]["name"] == "forward");
  CHECK(document["steps"]["split"][2]["share"] == Approx(0.395));
  CHECK(document["operators"][0]["calls"] == 20);
  CHECK(document["memory"]["peak"]["mib"] == 600);
  CHECK(document["findings"][0]["gain_share"] == Approx(0.4));
}

TEST_CASE("a profile of no step says so", "[profiler]") {
  CHECK(format_text({}) == "no step was recorded\n");
  CHECK(nlohmann::json::parse(format_json({}))["steps"]["num"] == 0);
}

TEST_CASE("keys are written as YAML that can be pasted", "[profiler]") {
  CHECK(yaml_line({"amp.mode", "bf16"}) == "amp: {mode: bf16}");
  CHECK(yaml_line({"activation_checkpointing", "none"}) == "activation_checkpointing: none");
  CHECK(yaml_line({"optimizer.lr_scheduler.warmup", "5"}) == "optimizer: {lr_scheduler: {warmup: 5}}");
}

}  // namespace
}  // namespace trainctl::profiler
