#include <catch2/catch.hpp>

#include "capture_example.h"
#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {
namespace {

using testing::CaptureExample;

TEST_CASE("actions of a pipeline are timed from the end of the step's count", "[profiler]") {
  CaptureExample example;
  for (const double begin : {0.0, 2000.0}) {
    const auto step = example.step(begin, begin + 1000);
    example.span("count", step, begin + 50, begin + 100);
    const auto forward = example.span("forward", step, begin + 150, begin + 300);
    example.span("pipeline 0F0", forward, begin + 150, begin + 300);
    example.span("receive", step, begin + 300, begin + 500);
    const auto backward = example.span("backward", step, begin + 500, begin + 900);
    example.span("pipeline 0B0", backward, begin + 510, begin + 890);
  }
  const std::vector<PipelineStep> steps = analyse_pipeline(example.done());
  REQUIRE(steps.size() == 2);
  REQUIRE(steps[1].size() == 2);
  CHECK(steps[1][0].begin_ms == Approx(0.05));
  CHECK(steps[1][0].end_ms == Approx(0.2));
  CHECK(steps[1][1].begin_ms == Approx(0.41));
  CHECK(steps[1][1].end_ms == Approx(0.79));
  CHECK(analyse_steps(example.capture).ms(Part::communication) == Approx(0.25));
}

TEST_CASE("on a GPU an action is as long as the kernels that it launched, on whichever thread", "[profiler]") {
  CaptureExample example;
  example.capture.threads.emplace_back("autograd");
  const auto step = example.step(0, 1000);
  example.span("count", step, 0, 100);
  const auto forward = example.span("forward", step, 100, 120);
  const auto first = example.span("pipeline 0F0", forward, 100, 120);
  const auto mm = example.op("aten::mm", first, 105, 110);
  const auto backward = example.span("backward", step, 120, 140);
  example.span("pipeline 0B0", backward, 120, 140);
  const auto mm_backward = example.op("aten::mm", -1, 125, 130);
  example.at(mm_backward).thread = 1;
  example.kernel("gemm", mm, 300, 400);
  example.kernel("gemm", mm_backward, 600, 650);
  example.kernel("ncclRecv", mm_backward, 400, 600, DeviceWork::collective);
  example.kernel("gemm", mm_backward, 700, 800);
  const std::vector<PipelineStep> steps = analyse_pipeline(example.done());
  REQUIRE(steps.size() == 1);
  REQUIRE(steps[0].size() == 2);
  CHECK(steps[0][0].begin_ms == Approx(0.2));
  CHECK(steps[0][0].end_ms == Approx(0.3));
  CHECK(steps[0][1].begin_ms == Approx(0.5));
  CHECK(steps[0][1].end_ms == Approx(0.7));
}

TEST_CASE("a run without a pipeline has no actions", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 1000);
  example.span("forward", step, 100, 200);
  CHECK(analyse_pipeline(example.done()).empty());
}

}  // namespace
}  // namespace trainctl::profiler
