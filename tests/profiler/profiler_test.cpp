#include "profiler/profiler.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "runtime/memory.h"
#include "runtime/span.h"

namespace trainctl {
namespace {

/// A directory of this test's own, removed at its end.
class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / ("trainctl-profiler-" + std::to_string(::getpid()))) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// 3 products and a relu in "forward", 2 products in "backward" under autograd, an allocation of 24 MiB in "optimizer".
void work() {
  at::Tensor x = at::randn({64, 32});
  at::Tensor weight = at::randn({32, 32}).requires_grad_(true);
  at::Tensor loss;
  {
    const Span span("forward");
    at::Tensor h = x;
    for (int i = 0; i < 3; ++i) h = at::mm(h, weight);
    loss = at::relu(h).sum();
    sleep_ms(4);
  }
  {
    const Span span("backward");
    loss.backward();
    const Span inner("inside backward");
    sleep_ms(4);
  }
  {
    const Span span("optimizer");
    const at::Tensor scratch = at::empty({24 << 20}, at::kByte);
  }
  sleep_ms(2);
}

ProfileSummary run(Profiler& profiler) {
  for (std::int64_t step = 0; step < profiler.num_steps(); ++step) {
    profiler.step_begins();
    work();
    profiler.step_ends();
  }
  return profiler.summary();
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

const OperatorTime* find(const ProfileSummary& summary, const std::string& name) {
  const auto found = std::ranges::find(summary.operators, name, &OperatorTime::name);
  return found == summary.operators.end() ? nullptr : &*found;
}

std::vector<std::string> span_names(const ProfileSummary& summary) {
  std::vector<std::string> names;
  for (const auto& [name, ms] : summary.split_ms) names.push_back(name);
  return names;
}

TEST_CASE("a step's time is split by its outermost spans and adds up", "[profiler]") {
  install_host_allocator(HostMemory::cached);
  const Scratch directory;
  const auto profiler =
      build(ProfilerConfig{.wait = 1, .warmup = 1, .active = 2, .repeat = 2}, c10::kCPU, directory.path());
  const ProfileSummary summary = run(*profiler);
  CHECK(summary.num_steps == 4);
  CHECK(span_names(summary) == std::vector<std::string>{"forward", "backward", "optimizer", "other"});
  double sum = 0;
  for (const auto& [name, ms] : summary.split_ms) {
    CHECK(ms >= 0);
    sum += ms;
  }
  CHECK(sum == Approx(summary.step_ms));
  CHECK(summary.split_ms[0].second >= 4);
  CHECK(summary.split_ms[1].second >= 4);
  CHECK(summary.split_ms[3].second >= 2);
}

TEST_CASE("operators are counted exactly, with their shapes, in the kept steps alone", "[profiler]") {
  install_host_allocator(HostMemory::cached);
  const Scratch directory;
  const auto profiler =
      build(ProfilerConfig{.wait = 0, .warmup = 1, .active = 3, .repeat = 1}, c10::kCPU, directory.path());
  const ProfileSummary summary = run(*profiler);
  REQUIRE(summary.operators.size() <= 10);
  const OperatorTime* mm = find(summary, "aten::mm");
  REQUIRE(mm != nullptr);
  // Forward 3; backward 3 for the weight and 2 for the inputs, the first of which needs no gradient.
  CHECK(mm->calls == 3 * (3 + 3 + 2));
  CHECK(mm->shapes.starts_with("[64,32] [32,32]"));
  CHECK(mm->self_ms > 0);
  CHECK(mm->share == Approx(mm->self_ms / summary.step_ms));
  CHECK(std::ranges::is_sorted(summary.operators, std::greater{}, &OperatorTime::self_ms));
  CHECK(find(summary, "forward") == nullptr);
}

TEST_CASE("operators' inputs are left out when they aren't recorded", "[profiler]") {
  const Scratch directory;
  const ProfilerConfig config{.wait = 0, .warmup = 0, .active = 1, .repeat = 1, .shapes = false, .memory = false};
  const auto profiler = build(config, c10::kCPU, directory.path());
  const ProfileSummary summary = run(*profiler);
  REQUIRE_FALSE(summary.operators.empty());
  for (const OperatorTime& op : summary.operators) CHECK(op.shapes.empty());
}

TEST_CASE("each cycle leaves a trace that TensorBoard's profiler page can find and read", "[profiler]") {
  install_host_allocator(HostMemory::cached);
  const Scratch directory;
  const auto profiler =
      build(ProfilerConfig{.wait = 0, .warmup = 1, .active = 2, .repeat = 2}, c10::kCPU, directory.path());
  const ProfileSummary summary = run(*profiler);
  REQUIRE(summary.traces.size() == 2);
  for (const auto& path : summary.traces) {
    CHECK(std::regex_match(path.filename().string(), std::regex(R"(.+_\d+\.\d{13}\.pt\.trace\.json)")));
    CHECK(std::filesystem::file_size(path) < 2'000'000);
    const nlohmann::json trace = read_json(path);
    std::set<std::string> annotations;
    std::set<std::string> operators;
    std::int64_t num_memory_events = 0;
    for (const auto& event : trace.at("traceEvents")) {
      const std::string category = event.value("cat", "");
      if (category == "user_annotation") annotations.insert(event.at("name"));
      if (category == "cpu_op") operators.insert(event.at("name"));
      if (event.value("name", "") == "[memory]") ++num_memory_events;
    }
    for (const char* name : {"forward", "backward", "optimizer", "inside backward"}) CHECK(annotations.contains(name));
    CHECK(std::ranges::count_if(annotations, [](const auto& name) { return name.starts_with("ProfilerStep#"); }) == 2);
    CHECK(operators.contains("aten::mm"));
    CHECK(num_memory_events > 0);
  }
}

TEST_CASE("memory peaks are known by span", "[profiler]") {
  install_host_allocator(HostMemory::cached);
  const Scratch directory;
  const auto profiler =
      build(ProfilerConfig{.wait = 0, .warmup = 0, .active = 2, .repeat = 1}, c10::kCPU, directory.path());
  const double before = static_cast<double>(host_memory().current) / (1 << 20);
  const ProfileSummary summary = run(*profiler);
  CHECK(summary.peak_mib_by_span.at("optimizer") - before == Approx(24).margin(1));
  CHECK(summary.peak_mib_by_span.at("forward") - before == Approx(0).margin(1));
  CHECK(summary.peak_memory_mib - before == Approx(24).margin(1));
  CHECK(std::ranges::none_of(summary.peak_mib_by_span,
                             [](const auto& entry) { return entry.first.starts_with("Profiler"); }));
}

TEST_CASE("a profiler dropped in the middle of a step leaves nothing running", "[profiler]") {
  const Scratch directory;
  {
    const auto profiler = build(ProfilerConfig{.wait = 0, .warmup = 0, .active = 5}, c10::kCPU, directory.path());
    profiler->step_begins();
    work();
  }
  const auto profiler = build(ProfilerConfig{.wait = 0, .warmup = 0, .active = 1}, c10::kCPU, directory.path());
  CHECK(run(*profiler).num_steps == 1);
}

}  // namespace
}  // namespace trainctl
