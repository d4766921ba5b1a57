#include "profiler/profiler.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "profiler/findings/findings.h"
#include "runtime/memory.h"
#include "runtime/span.h"
#include "support/gpu.h"
#include "support/temporary_directory.h"

namespace trainctl::profiler {
namespace {

using testing::TemporaryDirectory;

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// 3 products and a relu in "forward", two of them in a module; under autograd; 24 MiB in "optimizer".
class Work {
 public:
  void step() {
    at::Tensor loss;
    {
      const runtime::Span span("forward");
      at::Tensor h = at::mm(x_, weight_);
      {
        const runtime::Span module("block");
        h = at::mm(h, weight_);
        const runtime::Span layer("block.layer");
        h = at::mm(h, weight_);
        sleep_ms(2);
      }
      loss = at::relu(h).sum();
      sleep_ms(2);
    }
    {
      const runtime::Span span("backward");
      loss.backward();
      const runtime::Span inner("inside backward");
      sleep_ms(4);
    }
    {
      const runtime::Span span("optimizer");
      const at::Tensor scratch = at::empty({24 << 20}, at::kByte);
      weight_.mutable_grad().reset();
    }
    sleep_ms(2);
  }

  std::vector<std::uintptr_t> gradients() const {
    return {reinterpret_cast<std::uintptr_t>(weight_.grad().storage().data())};
  }

  ProfiledRun described() const {
    return {.device = c10::kCPU,
            .modules = {{.name = "block", .is_block = true}, {.name = "block.layer"}},
            .gradients = [this] { return gradients(); }};
  }

 private:
  at::Tensor x_ = at::randn({512, 256});
  at::Tensor weight_ = at::randn({256, 256}).requires_grad_(true);
};

ProfileSummary profile(const ProfilerConfig& config, const std::filesystem::path& directory) {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  Work work;
  const auto profiler = build(config, work.described(), directory);
  while (!profiler->is_over()) {
    profiler->step_begins();
    work.step();
    profiler->step_ends();
  }
  return profiler->summary();
}

std::vector<OperatorSummary> rows_of(const ProfileSummary& summary, const std::string& name) {
  std::vector<OperatorSummary> rows;
  for (const OperatorSummary& row : summary.operators.rows)
    if (row.name == name) rows.push_back(row);
  return rows;
}

const CallNode* find(const CallNode& node, const std::string& name) {
  if (node.name == name) return &node;
  for (const CallNode& child : node.children)
    if (const CallNode* found = find(child, name)) return found;
  return nullptr;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST_CASE("a step's time is split by its spans and adds up", "[profiler]") {
  const TemporaryDirectory directory;
  const ProfileSummary summary = profile({.wait = 3, .warmup = 1, .active = 2, .repeat = 2}, directory.path());
  CHECK(summary.num_steps() == 4);
  double sum = 0;
  for (const Spread& part : summary.steps.split) sum += part.mean_ms;
  CHECK(sum == Approx(summary.steps.time.mean_ms).epsilon(1e-6));
  CHECK(summary.steps.ms(Part::forward) >= 4);
  CHECK(summary.steps.ms(Part::backward) >= 4);
  CHECK(summary.steps.ms(Part::other) >= 2);
  CHECK(summary.steps.spans.size() == 3);
  CHECK(summary.step_ms_unrecorded.value() >= 10);
}

TEST_CASE("operators are counted exactly, with shapes and FLOPs, in the kept steps alone", "[profiler]") {
  const TemporaryDirectory directory;
  const ProfileSummary summary = profile({.wait = 0, .warmup = 1, .active = 3, .repeat = 1}, directory.path());
  const std::vector<OperatorSummary> products = rows_of(summary, "aten::mm");
  // Forward 3; backward 3 for the weight and 2 for the inputs, the first of which needs no gradient.
  double forward = 0;
  double backward = 0;
  for (const OperatorSummary& row : products) {
    (row.phase == "forward" ? forward : backward) += row.calls;
    CHECK(row.flops == Approx(row.calls * 2.0 * 512 * 256 * 256));
    CHECK(row.bytes == Approx(row.calls * 4.0 * (512 * 256 + 256 * 256 + 512 * 256)).epsilon(0.3));
    CHECK(row.dtype == "fp32");
  }
  CHECK(forward == Approx(3));
  CHECK(backward == Approx(5));
  CHECK(products.front().shapes.find("[512,256]") != std::string::npos);
  CHECK(std::ranges::is_sorted(summary.operators.rows, std::greater{}, &OperatorSummary::self_ms));
  CHECK(rows_of(summary, "forward").empty());
}

TEST_CASE("operators' inputs are left out when they aren't recorded", "[profiler]") {
  const TemporaryDirectory directory;
  const ProfileSummary summary =
      profile({.wait = 0, .warmup = 0, .active = 1, .repeat = 1, .record_shapes = false, .profile_memory = false},
              directory.path());
  REQUIRE_FALSE(summary.operators.rows.empty());
  for (const OperatorSummary& row : summary.operators.rows) CHECK(row.shapes.empty());
  CHECK(summary.memory.series.empty());
}

TEST_CASE("the call tree has modules, in the backward pass too", "[profiler]") {
  const TemporaryDirectory directory;
  const ProfileSummary summary = profile({.wait = 0, .warmup = 1, .active = 2, .repeat = 1}, directory.path());
  CHECK(summary.call_tree.ms == Approx(summary.steps.time.mean_ms));
  const CallNode* forward = find(summary.call_tree, "forward");
  REQUIRE(forward);
  const CallNode* block = find(*forward, "block");
  REQUIRE(block);
  CHECK(find(*block, "block.layer")->ms >= 2);
  const CallNode* backward = find(summary.call_tree, "backward");
  REQUIRE(backward);
  REQUIRE(find(*backward, "block"));
  const CallNode* layer = find(*find(*backward, "block"), "block.layer");
  REQUIRE(layer);
  CHECK(find(*layer, "MmBackward0")->calls == 1);
  REQUIRE(summary.modules.size() == 2);
  CHECK(summary.modules[0].name == "block");
  CHECK(summary.modules[0].flops == Approx(2 * 3 * 2.0 * 512 * 256 * 256));
  CHECK(summary.modules[0].backward_ms > summary.modules[1].backward_ms);
}

TEST_CASE("memory is known by span, module and category", "[profiler]") {
  const TemporaryDirectory directory;
  runtime::install_host_allocator(runtime::HostMemory::cached);
  const double before = static_cast<double>(runtime::host_memory().current) / (1 << 20);
  const ProfileSummary summary = profile({.wait = 0, .warmup = 1, .active = 2, .repeat = 1}, directory.path());
  const auto& spans = summary.steps.spans;
  REQUIRE(spans.size() == 3);
  CHECK(spans[2].peak_mib.value() - before == Approx(24).margin(2));
  CHECK(spans[0].peak_mib.value() - before == Approx(2).margin(1.5));
  CHECK(summary.memory.peak.allocated - before == Approx(24).margin(2));
  CHECK(summary.memory.peak_phase == "optimizer");
  CHECK(summary.memory.peak.of(MemoryCategory::gradients) == Approx(0.25));
  CHECK(summary.memory.peak.of(MemoryCategory::workspace) == Approx(24).margin(0.5));
  CHECK(summary.modules[0].activations_mib == Approx(0.5));  // what the layer's product needs again
  CHECK_FALSE(summary.memory.fragmentation.points.empty());
  for (const auto& point : summary.memory.fragmentation.points) CHECK(point.reserved_mib + 1 >= point.allocated_mib);
}

TEST_CASE("each cycle leaves a trace that TensorBoard's profiler page can find and read", "[profiler]") {
  const TemporaryDirectory directory;
  const ProfileSummary summary = profile({.wait = 0, .warmup = 1, .active = 2, .repeat = 2}, directory.path());
  REQUIRE(summary.traces.size() == 2);
  for (const TraceFile& file : summary.traces) {
    CHECK(std::regex_match(std::filesystem::path(file.path).filename().string(),
                           std::regex(R"(.+_\d+\.\d{13}\.pt\.trace\.json)")));
    const nlohmann::json trace = read_json(file.path);
    CHECK(file.events == static_cast<std::int64_t>(trace.at("traceEvents").size()));
    CHECK(trace.at("distributedInfo").at("rank") == 0);
    std::set<std::string> annotations;
    std::set<std::string> operators;
    std::int64_t num_memory_events = 0;
    for (const auto& event : trace.at("traceEvents")) {
      const std::string category = event.value("cat", "");
      if (category == "user_annotation") annotations.insert(event.at("name"));
      if (category == "cpu_op") operators.insert(event.at("name"));
      if (event.value("name", "") == "[memory]") ++num_memory_events;
    }
    for (const char* name : {"forward", "backward", "optimizer", "block.layer"}) CHECK(annotations.contains(name));
    CHECK(std::ranges::count_if(annotations, [](const auto& name) { return name.starts_with("ProfilerStep#"); }) == 2);
    CHECK(operators.contains("aten::mm"));
    CHECK(num_memory_events > 0);
  }
}

TEST_CASE("the document has every part that docs/profile.md names, and stays small", "[profiler]") {
  const TemporaryDirectory directory;
  ProfileSummary summary = profile({.wait = 2, .warmup = 1, .active = 3, .repeat = 1}, directory.path());
  summary.findings = {{.rule = "r",
                       .what = "w",
                       .evidence = "e",
                       .changes = {{"dataset.num_workers", "auto"}},
                       .gain_ms = 1,
                       .gain = "g"}};
  const std::string text = format_json(summary);
  CHECK(text.size() < 1 << 20);
  const auto document = nlohmann::json::parse(text);
  for (const char* key : {"version",
                          "created",
                          "run",
                          "device",
                          "machine",
                          "peaks",
                          "steps",
                          "operators",
                          "operators_dropped",
                          "kernels",
                          "kernels_dropped",
                          "call_tree",
                          "modules",
                          "timeline",
                          "memory",
                          "distributed",
                          "host",
                          "data",
                          "findings",
                          "traces",
                          "memory_snapshot",
                          "overhead"})
    CHECK(document.contains(key));
  CHECK(document["steps"]["num"] == 3);
  CHECK(document["steps"]["split"].size() == kNumParts);
  CHECK(document["steps"]["each"][0]["split_ms"].size() == kNumParts);
  CHECK(document["findings"][0]["change"][0]["yaml"] == "dataset: {num_workers: auto}");
  CHECK(document["memory"]["series"]["t_ms"].size() == document["memory"]["series"]["activations"].size());
  CHECK(document["timeline"]["tracks"][0]["intervals"][0].size() == 5);
}

/// MiB of what a planted step allocates.
struct PlantedPieces {
  int freed = 0;
  int kept = 0;   // between two of the freed ones
  int later = 0;  // larger than any piece
};

/// A step whose freed memory lies in a hundred pieces between what stays, when the most is in use.
std::vector<Finding> findings_of_pieces(c10::Device device, const PlantedPieces& pieces) {
  const TemporaryDirectory directory;
  const auto zeros = [&](std::int64_t mib) {
    return at::zeros({mib << 20}, at::TensorOptions(device).dtype(at::kByte));
  };
  const auto profiler =
      build({.wait = 0, .warmup = 0, .active = 1, .repeat = 1}, ProfiledRun{.device = device}, directory.path());
  profiler->step_begins();
  std::vector<at::Tensor> kept;
  {
    const runtime::Span span("forward");
    std::vector<at::Tensor> freed;
    for (int i = 0; i < 100; ++i) {
      freed.push_back(zeros(pieces.freed));
      kept.push_back(zeros(pieces.kept));
    }
  }
  {
    const runtime::Span span("backward");
    for (int i = 0; i < 60; ++i) kept.push_back(zeros(pieces.later));
    sleep_ms(2);
  }
  profiler->step_ends();
  return find_findings(profiler->summary());
}

#ifndef TRAINCTL_SANITIZED  // under AddressSanitizer no memory is kept for later
TEST_CASE("pieces of memory between long-lived ones are found to be fragmentation", "[profiler]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  runtime::release_host_cache();
  const std::vector<Finding> findings = findings_of_pieces(c10::kCPU, {.freed = 3, .kept = 1, .later = 4});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].rule == "fragmentation");
  CHECK(findings[0].gain_mib == Approx(297).margin(20));
}
#endif

TEST_CASE("so are pieces of a GPU's memory", "[profiler][gpu]") {
  testing::need_gpu();
  // Beyond 10 MiB the caching allocator asks the driver for each: a freed piece serves nothing larger.
  const std::vector<Finding> findings =
      findings_of_pieces(c10::Device(c10::kCUDA, 0), {.freed = 12, .kept = 4, .later = 16});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].rule == "fragmentation");
}

TEST_CASE("a profiler dropped in the middle of a step leaves nothing running", "[profiler]") {
  const TemporaryDirectory directory;
  Work work;
  {
    const auto profiler = build({.wait = 0, .warmup = 0, .active = 5}, work.described(), directory.path());
    profiler->step_begins();
    work.step();
  }
  CHECK(profile({.wait = 0, .warmup = 0, .active = 1}, directory.path()).num_steps() == 1);
}

TEST_CASE("a GPU's run leaves a memory snapshot and kernels", "[profiler][gpu]") {
  testing::need_gpu();
  const TemporaryDirectory directory;
  const c10::Device device(c10::kCUDA, 0);
  const auto profiler =
      build({.wait = 0, .warmup = 1, .active = 2, .repeat = 1}, ProfiledRun{.device = device}, directory.path());
  const at::Tensor x = at::randn({1024, 1024}, at::TensorOptions(device));
  while (!profiler->is_over()) {
    profiler->step_begins();
    {
      const runtime::Span span("forward");
      const at::Tensor y = at::mm(x, x);
    }
    profiler->step_ends();
  }
  const ProfileSummary summary = profiler->summary();
  REQUIRE(summary.memory_snapshot.has_value());
  CHECK(std::filesystem::file_size(*summary.memory_snapshot) > 1000);
  REQUIRE_FALSE(summary.kernels.rows.empty());
  CHECK(summary.kernels.rows[0].calls >= 1);
  CHECK(summary.steps.ms(Part::forward) > 0);
  CHECK_FALSE(summary.memory.fragmentation.points.empty());
}

}  // namespace
}  // namespace trainctl::profiler
