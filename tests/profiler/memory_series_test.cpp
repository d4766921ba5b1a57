#include <catch2/catch.hpp>

#include "capture_example.h"
#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {
namespace {

using testing::CaptureExample;

TEST_CASE("memory is told apart by where it was allocated and how long it lived", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 1000);
  const auto forward = example.span("forward", step, 0, 300);
  const auto layer = example.add(EventKind::module, "layer", forward, 10, 200);
  const auto op = example.op("aten::mm", layer, 20, 100);
  const auto backward = example.span("backward", step, 300, 800);
  const auto mm = example.op("aten::mm", backward, 310, 400);
  const auto optimizer = example.span("optimizer", step, 800, 990);
  example.allocate(1, -1, 0x900, 10);  // parameters and the optimizer's state, from before
  example.allocate(25, op, 0x100, 4);  // kept for the backward pass
  example.allocate(30, op, 0x200, 1);  // needed inside of the operator
  example.allocate(90, op, 0x200, -1);
  example.allocate(320, mm, 0x300, 8);  // a gradient
  example.allocate(330, mm, 0x400, 2);  // a gradient of an activation
  example.allocate(700, backward, 0x400, -2);
  example.allocate(710, backward, 0x100, -4);
  example.allocate(980, optimizer, 0x300, -8);
  example.capture.gradients.push_back({.ns = CaptureExample::ns(805), .addresses = {0x300}});
  ProfileSummary summary;
  const MemorySummary memory =
      analyse_memory(example.done(), {.parameters = 6 << 20, .optimizer = 3 << 20, .limit = 1 << 30}, summary);
  CHECK(memory.limit_mib == 1024);
  CHECK(memory.peak.allocated == Approx(24));
  CHECK(memory.peak_phase == "backward");
  CHECK(memory.peak.of(MemoryCategory::parameters) == 6);
  CHECK(memory.peak.of(MemoryCategory::optimizer) == 3);
  CHECK(memory.peak.of(MemoryCategory::activations) == 4);
  CHECK(memory.peak.of(MemoryCategory::gradients) == 8);
  CHECK(memory.peak.of(MemoryCategory::workspace) == 2);
  CHECK(memory.peak.of(MemoryCategory::other) == Approx(1));
  REQUIRE(memory.peak_by_module.size() == 2);
  CHECK(memory.peak_by_module[0] == std::pair<std::string, double>{"", 10});
  CHECK(memory.peak_by_module[1] == std::pair<std::string, double>{"layer", 4});
  for (const MemoryPoint& point : memory.series) {
    double sum = 0;
    for (const double mib : point.mib) sum += mib;
    CHECK(sum == Approx(point.allocated).margin(1e-9));
  }
}

TEST_CASE("a module keeps what its layers keep, and peaks while it runs", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 1000);
  const auto forward = example.span("forward", step, 0, 300);
  const auto block = example.add(EventKind::module, "block", forward, 10, 200);
  const auto layer = example.add(EventKind::module, "block.layer", block, 20, 100);
  const auto op = example.op("aten::mm", layer, 30, 90);
  example.allocate(40, op, 0x100, 4);
  example.allocate(50, op, 0x200, 2);
  example.allocate(60, op, 0x200, -2);
  example.allocate(600, step, 0x100, -4);
  example.done();
  ProfileSummary summary;
  summary.modules = {{.name = "block", .is_block = true, .peak_mib = {}}, {.name = "block.layer", .peak_mib = {}}};
  analyse_memory(example.capture, {}, summary);
  CHECK(summary.modules[0].activations_mib == 4);
  CHECK(summary.modules[1].activations_mib == 4);
  CHECK(summary.modules[0].peak_mib.value() == Approx(6));
}

TEST_CASE("a long history is drawn by at most a thousand points, and keeps its peak", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 1'000'000);
  for (int i = 0; i < 20'000; ++i) {
    example.allocate(10.0 * i, step, 0x1000, i == 7777 ? 50 : 1);
    example.allocate(10.0 * i + 5, step, 0x1000, i == 7777 ? -50 : -1);
  }
  ProfileSummary summary;
  const MemorySummary memory = analyse_memory(example.done(), {}, summary);
  CHECK(memory.series.size() <= 1001);
  CHECK(memory.peak.allocated == Approx(50));
  CHECK(std::ranges::count_if(memory.series, [](const MemoryPoint& point) { return point.allocated > 49; }) == 1);
}

}  // namespace
}  // namespace trainctl::profiler
