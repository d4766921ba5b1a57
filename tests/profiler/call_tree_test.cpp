#include <catch2/catch.hpp>

#include "capture_example.h"
#include "profiler/analysis/analysis.h"
#include "profiler/record/backward_modules.h"

namespace trainctl::profiler {
namespace {

using testing::CaptureExample;

const CallNode* child(const CallNode& node, const std::string& name) {
  for (const CallNode& one : node.children)
    if (one.name == name) return &one;
  return nullptr;
}

/// A block with two layers; each makes two nodes of autograd.
struct Network {
  CaptureExample example;
  std::unordered_map<std::int32_t, SpanNodes> spans;

  Network() {
    const auto step = example.step(0, 1000);
    const auto forward = example.span("forward", step, 0, 300);
    const auto block = module("block", forward, {10, 290}, {5, 9});
    const auto first = module("block.first", block, {20, 100}, {5, 7});
    example.op("aten::mm", first, 30, 90);
    const auto second = module("block.second", block, {100, 280}, {7, 9});
    example.op("aten::mm", second, 110, 270);
    const auto backward = example.span("backward", step, 300, 900);
    node("MmBackward0", backward, 310, 500, 8);
    node("MmBackward0", backward, 510, 700, 6);
    node("torch::autograd::AccumulateGrad", backward, 700, 710, -1);
    node("SumBackward0", backward, 720, 730, 9);
    example.done();
    attribute_backward(example.capture, 0, spans);
  }

  std::int32_t module(const std::string& name, std::int32_t parent, std::pair<double, double> time,
                      std::pair<std::int64_t, std::int64_t> nodes) {
    const auto index = example.add(EventKind::module, name, parent, time.first, time.second);
    spans[index] = {.thread = 1, .first = nodes.first, .end = nodes.second};
    return index;
  }
  void node(const std::string& name, std::int32_t parent, double begin, double end, std::int64_t sequence) {
    const auto index = example.op(name, parent, begin, end);
    example.at(index).is_backward = true;
    example.at(index).sequence = sequence;
    example.at(index).forward_thread = 1;
    example.op("aten::mm", index, begin + 1, end - 1);
  }
};

TEST_CASE("backward operators belong to the module in whose forward pass autograd made their node", "[profiler]") {
  Network network;
  const CallNode root = analyse_calls(network.example.capture);
  CHECK(root.name == "step");
  CHECK(root.ms == Approx(1.0));
  const CallNode* forward = child(root, "forward");
  REQUIRE(forward);
  const CallNode* block = child(*forward, "block");
  REQUIRE(block);
  CHECK(block->ms == Approx(0.28));
  CHECK(block->self_ms == Approx(0.02));
  const CallNode* backward = child(root, "backward");
  REQUIRE(backward);
  const CallNode* back_block = child(*backward, "block");
  REQUIRE(back_block);
  CHECK(child(*back_block, "block.second")->ms == Approx(0.19));
  CHECK(child(*back_block, "block.first")->ms == Approx(0.2));  // with what adds its gradient up
  CHECK(back_block->ms == Approx(0.39));
  CHECK(child(*backward, "SumBackward0") != nullptr);  // of no module
}

TEST_CASE("modules have their forward and backward time, theirs and that of what they call", "[profiler]") {
  Network network;
  for (CapturedEvent& event : network.example.capture.events)
    if (network.example.capture.name_of(event.name) == "aten::mm") event.flops = 100;
  const auto modules = analyse_modules(
      network.example.capture,
      {{.name = "block", .is_block = true, .parameter_bytes = 2 << 20}, {.name = "block.first"}, {.name = "unused"}});
  REQUIRE(modules.size() == 2);
  CHECK(modules[0].is_block);
  CHECK(modules[0].forward_ms == Approx(0.28));
  CHECK(modules[0].backward_ms == Approx(0.39));
  CHECK(modules[0].flops == 500);
  CHECK(modules[0].parameters_mib == 2);
  CHECK(modules[1].forward_ms == Approx(0.08));
  CHECK(modules[1].backward_ms == Approx(0.2));
  CHECK(modules[1].flops == 300);
}

TEST_CASE("a large tree keeps its dearest nodes", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 100'000);
  for (int i = 0; i < 5000; ++i) {
    std::string name = "op" + std::to_string(i);
    example.op(name, step, 10.0 * i, 10.0 * i + (i < 1000 ? 5 : 1));
  }
  const CallNode root = analyse_calls(example.done());
  CHECK(root.children.size() == 1000);
  CHECK(root.self_ms == Approx(100 - 5));
}

TEST_CASE("a timeline keeps its longest intervals and says how many it left out", "[profiler]") {
  CaptureExample example;
  const auto step = example.step(0, 1'000'000);
  for (int i = 0; i < 30'000; ++i) example.op("op", step, 10.0 * i, 10.0 * i + (i % 3 == 0 ? 8 : 2));
  const Timeline timeline = analyse_timeline(example.done());
  REQUIRE(timeline.tracks.size() == 1);
  CHECK(timeline.tracks[0].intervals.size() == 20'000);
  CHECK(timeline.num_dropped == 10'001);
  CHECK(timeline.shorter_than_us == Approx(2));
  CHECK(timeline.tracks[0].intervals[0].kind == IntervalKind::span);
  CHECK(timeline.tracks[0].intervals[1].depth == 1);
}

}  // namespace
}  // namespace trainctl::profiler
