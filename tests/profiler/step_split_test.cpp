#include <catch2/catch.hpp>

#include "capture_example.h"
#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {
namespace {

using testing::CaptureExample;

TEST_CASE("a step's time goes to the innermost span that is known, the rest is other, and all adds up", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 1000);
  example.span("data", step, 10, 110);
  const auto forward = example.span("forward", step, 120, 400);
  example.span("layer1", forward, 130, 390);
  const auto backward = example.span("backward", step, 400, 900);
  example.span("communication", backward, 700, 800);
  example.span("clip", step, 900, 910);
  example.span("optimizer", step, 910, 990);
  const StepSummary steps = analyse_steps(example.done());
  REQUIRE(steps.each.size() == 1);
  CHECK(steps.time.mean_ms == Approx(1.0));
  CHECK(steps.ms(Part::data_wait) == Approx(0.1));
  CHECK(steps.ms(Part::forward) == Approx(0.28));
  CHECK(steps.ms(Part::backward) == Approx(0.4));
  CHECK(steps.ms(Part::communication) == Approx(0.1));
  CHECK(steps.ms(Part::optimizer) == Approx(0.09));
  CHECK(steps.ms(Part::other) == Approx(0.03));
  REQUIRE(steps.spans.size() == 5);
  CHECK(steps.spans[2].name == "backward");
  CHECK(steps.spans[2].ms == Approx(0.5));
}

TEST_CASE("the spread is over the steps", "[profiler]") {
  CaptureExample example;
  for (const double length : {100.0, 200.0, 300.0}) {
    const double begin = example.capture.steps.empty() ? 0 : 1000.0 * static_cast<double>(example.capture.steps.size());
    const auto step = example.step(begin, begin + length);
    example.span("forward", step, begin, begin + length / 2);
  }
  const StepSummary steps = analyse_steps(example.done());
  CHECK(steps.time.min_ms == Approx(0.1));
  CHECK(steps.time.median_ms == Approx(0.2));
  CHECK(steps.time.max_ms == Approx(0.3));
  CHECK(steps.time.std_ms == Approx(0.0816).epsilon(1e-3));
  CHECK(steps.split[static_cast<std::size_t>(Part::forward)].max_ms == Approx(0.15));
}

TEST_CASE("on a GPU a step's time is that of its kernels, and idle moments are the host's", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 1000);
  example.span("data", step, 0, 100);
  const auto forward = example.span("forward", step, 100, 200);
  const auto mm = example.op("aten::mm", forward, 110, 120);
  const auto backward = example.span("backward", step, 200, 300);
  const auto mm_backward = example.op("aten::mm", backward, 210, 220);
  example.kernel("Memcpy HtoD", -1, 100, 200, DeviceWork::copy_to_device);
  example.kernel("gemm", mm, 150, 500);
  example.kernel("gemm", mm_backward, 500, 800);
  example.kernel("ncclDevKernel_AllReduce", -1, 700, 900, DeviceWork::collective);
  const StepSummary steps = analyse_steps(example.done());
  CHECK(steps.ms(Part::data_wait) == Approx(0.1));
  CHECK(steps.ms(Part::host_to_device) == Approx(0.05));  // the rest of the copy is hidden behind the product
  CHECK(steps.ms(Part::forward) == Approx(0.35));
  CHECK(steps.ms(Part::backward) == Approx(0.3));
  CHECK(steps.ms(Part::communication) == Approx(0.1));
  CHECK(steps.ms(Part::other) == Approx(0.1));
  CHECK(steps.device_utilization == Approx(0.8));
}

}  // namespace
}  // namespace trainctl::profiler
