#include "plan/memory/kernel_workspaces.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/version.h"
#include "runtime/cpu_kind.h"
#include "runtime/fake_tensor.h"
#include "runtime/memory.h"
#include "runtime/operator_arguments.h"

namespace trainctl::plan {
namespace {

constexpr int kFormat = 1;
constexpr std::int64_t kMostFileBytes = 16 << 20;
constexpr double kMostFlopsPerThread = 2e9;  // of one run: some tens of milliseconds
constexpr std::int64_t kMostBytes = 256 << 20;

/// A record of the allocations of the thread that installs it, and of no other.
class AllocationTrace final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    events_.push_back(bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::vector<std::int64_t> take() { return std::move(events_); }

 private:
  std::vector<std::int64_t> events_;
};

std::vector<std::int64_t> with_batch(std::vector<std::int64_t> sizes, std::int64_t batch) {
  if (batch > 0) sizes.at(0) = batch;
  return sizes;
}

/// Returns arguments with values, in the layout of the outlines.
runtime::Stack arguments_of(const KernelCall& call, std::int64_t batch) {
  runtime::Stack stack = call.arguments;
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const std::optional<TensorOutline>& outline = call.tensors[i];
    if (!outline) continue;
    const bool is_batched = std::find(call.batched.begin(), call.batched.end(), i) != call.batched.end();
    at::Tensor tensor = at::empty_strided(is_batched ? with_batch(outline->sizes, batch) : outline->sizes,
                                          outline->strides, at::TensorOptions(outline->dtype));
    stack[i] = tensor.fill_(0.5);
  }
  return stack;
}

std::int64_t bytes_of_tensors(const runtime::Stack& stack) {
  std::int64_t bytes = 0;
  for (const c10::IValue& value : stack)
    runtime::visit_tensors(value, [&](const at::Tensor& tensor) {
      if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
    });
  return bytes;
}

/// Returns the batch at which the call is run: its own if it is fast enough, else the largest even one that is.
std::int64_t affordable_batch(const KernelCall& call) {
  const std::int64_t own = call.batch();
  std::int64_t bytes = 0;
  for (const std::size_t argument : call.batched) bytes += call.tensors[argument]->bytes();
  const double by_flops = kMostFlopsPerThread * at::get_num_threads() / std::max(1.0, call.flops_per_sample());
  const double by_bytes = static_cast<double>(kMostBytes) * static_cast<double>(own) / static_cast<double>(bytes + 1);
  const auto most = static_cast<std::int64_t>(std::min({by_flops, by_bytes, 1e9}));
  return own <= most ? own : std::min(own, std::max<std::int64_t>(2, most - most % 2));
}

nlohmann::json to_json(const KernelTrace& trace) {
  return {{"events", trace.events}, {"result_bytes", trace.result_bytes}};
}

}  // namespace

std::int64_t KernelTrace::workspace() const {
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const std::int64_t event : events) {
    now += event;
    most = std::max(most, now);
  }
  return std::max<std::int64_t>(0, most - result_bytes);
}

KernelTrace trace_kernel(const KernelCall& call, std::int64_t batch) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const runtime::RealScope with_values;
  const runtime::HostPeakPause peak_of_the_run_stays;
  runtime::Stack stack = arguments_of(call, batch);
  const runtime::Stack held = stack;  // arguments are given back after the trace
  auto trace = std::make_shared<AllocationTrace>();
  {
    const c10::DebugInfoGuard hears(c10::DebugInfoKind::PROFILER_STATE, trace);
    call.op.callBoxed(&stack);
  }
  return {.events = trace->take(), .result_bytes = bytes_of_tensors(stack)};
}

std::optional<KernelTrace> extrapolate(const KernelTrace& smaller, const KernelTrace& larger, double steps_beyond) {
  if (smaller.events.size() != larger.events.size()) return std::nullopt;
  const auto beyond = [&](std::int64_t from, std::int64_t to) {
    return to + static_cast<std::int64_t>(static_cast<double>(to - from) * steps_beyond);
  };
  KernelTrace trace{.result_bytes = beyond(smaller.result_bytes, larger.result_bytes)};
  for (std::size_t i = 0; i < larger.events.size(); ++i) {
    const std::int64_t from = smaller.events[i];
    const std::int64_t to = larger.events[i];
    if ((from > 0) != (to > 0) || std::abs(to) < std::abs(from)) return std::nullopt;
    trace.events.push_back(beyond(from, to));
  }
  return trace;
}

KernelWorkspaces::KernelWorkspaces(const std::filesystem::path& directory, Kept kept) : kept_(kept) {
  if (directory.empty()) return;
  file_ = directory / ("workspaces_" +
                       core::checksum(runtime::cpu_kind() + "|" + std::to_string(at::get_num_threads()) + "|" +
                                      std::string(core::kVersion) + "|" + std::to_string(kFormat)) +
                       ".json");
  if (kept == Kept::renew || !std::filesystem::exists(file_)) return;
  try {
    const nlohmann::json json = core::parse_json(core::read_file(file_, kMostFileBytes), file_.string());
    for (const auto& [key, batches] : json.items())
      for (const auto& [batch, trace] : batches.items())
        traces_[key][std::stoll(batch)] = {.events = trace.at("events"), .result_bytes = trace.at("result_bytes")};
  } catch (const std::exception&) {  // only a cache: measured again
    traces_.clear();
  }
}

const KernelTrace& KernelWorkspaces::trace(const KernelCall& call, std::int64_t batch) {
  std::map<std::int64_t, KernelTrace>& known = traces_[call.key()];
  const auto found = known.find(batch);
  if (found != known.end()) return found->second;
  if (kept_ == Kept::only) throw core::Error("not measured");
  KernelTrace measured = trace_kernel(call, batch);
  is_changed_ = true;
  return known[batch] = std::move(measured);
}

std::int64_t KernelWorkspaces::measure(const KernelCall& call) {
  try {
    const std::int64_t own = call.batch();
    if (own == 0 && call.flops_per_sample() > kMostFlopsPerThread * at::get_num_threads()) return call.bound;
    const std::int64_t run = own == 0 ? 0 : affordable_batch(call);
    const KernelTrace larger = trace(call, run);
    if (run == own) return larger.workspace();
    const KernelTrace smaller = trace(call, run / 2);
    const double steps_beyond = static_cast<double>(own - run) / static_cast<double>(run - run / 2);
    if (const std::optional<KernelTrace> whole = extrapolate(smaller, larger, steps_beyond)) return whole->workspace();
    return std::min(call.bound, larger.workspace() * own / run + larger.workspace());
  } catch (const std::exception&) {  // no memory for it, or no such kernel
    return kept_ == Kept::only ? std::min(call.usual, call.bound) : call.bound;
  }
}

void KernelWorkspaces::save() {
  if (file_.empty() || !std::exchange(is_changed_, false)) return;
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, batches] : traces_)
    for (const auto& [batch, trace] : batches) json[key][std::to_string(batch)] = to_json(trace);
  try {
    std::filesystem::create_directories(file_.parent_path());
    core::write_file_atomically(file_, json.dump(1) + "\n");
  } catch (const std::exception&) {  // a home that can't be written to: measured again next time
  }
}

}  // namespace trainctl::plan
