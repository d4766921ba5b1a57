#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "core/units.h"
#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {
namespace {

constexpr std::size_t kMaxRows = 200;
constexpr double kTinyMs = 0.010;  // a call
constexpr double kTinyKernelMs = 0.005;
constexpr double kInefficient = 0.2;  // of its roof
constexpr double kNotable = 0.01;     // of the step
constexpr double kLowOccupancy = 0.25;
constexpr double kMuchFaster = 1.3;  // bf16 over fp32

double per_step(const Capture& capture) {
  return 1.0 / static_cast<double>(std::max<std::size_t>(1, capture.steps.size()));
}

double steps_ms(const Capture& capture) {
  double ms = 0;
  for (const CapturedStep& step : capture.steps)
    ms += static_cast<double>(step.end_ns - step.begin_ns) / core::kNsPerMs;
  return ms * per_step(capture);
}

std::string phase_of(const Capture& capture, const CapturedEvent& event) {
  const std::string& stage = event.stage < 0 ? "" : capture.name_of(event.stage);
  if (stage == "forward" || stage == "backward") return stage;
  if (stage == "optimizer" || stage == "clip" || stage == "unscale" || stage == "ema") return "optimizer";
  if (stage.empty() && (event.is_backward || event.parent >= 0))
    for (std::int32_t i = event.parent; i >= 0; i = capture.event(i).parent)
      if (capture.event(i).is_backward) return "backward";
  return event.is_backward ? "backward" : "other";
}

bool bf16_pays(const Peaks& peaks) {
  const auto fp32 = peaks.flops_per_s.find("fp32");
  const auto bf16 = peaks.flops_per_s.find("bf16");
  return fp32 != peaks.flops_per_s.end() && bf16 != peaks.flops_per_s.end() &&
         bf16->second > kMuchFaster * fp32->second;
}

std::optional<double> roofline_efficiency(const OperatorSummary& row, const Peaks& peaks) {
  const auto peak = peaks.flops_per_s.find(row.dtype == "fp16" ? "bf16" : row.dtype);
  double least_s = 0;
  if (row.flops > 0 && peak != peaks.flops_per_s.end()) least_s = row.flops / peak->second;
  if (row.bytes > 0 && peaks.bytes_per_s > 0) least_s = std::max(least_s, row.bytes / peaks.bytes_per_s);
  if (least_s == 0 || row.seconds() <= 0) return {};
  return std::min(1.0, least_s / row.seconds());
}

bool reads_device(const std::string& name) {
  return name == "aten::item" || name == "aten::_local_scalar_dense" || name == "aten::is_nonzero";
}

std::vector<std::string> flags_of(const OperatorSummary& row, const Peaks& peaks, double step_ms, double conversions) {
  std::vector<std::string> flags;
  if (row.calls > 0 && row.self_ms / row.calls < kTinyMs) flags.emplace_back("tiny");
  if (row.device_ms && *row.device_ms > 0 && *row.device_ms < row.self_ms) flags.emplace_back("launch_bound");
  if (conversions > 0) flags.emplace_back("layout_conversion");
  if (row.flops > 0 && row.dtype == "fp32" && bf16_pays(peaks)) flags.emplace_back("fp32_matrix");
  if (row.device_ms && reads_device(row.name)) flags.emplace_back("synchronises");
  if (row.roofline_efficiency && *row.roofline_efficiency < kInefficient && row.self_ms > kNotable * step_ms)
    flags.emplace_back("inefficient");
  return flags;
}

template <class Row, class Time>
Ranked<Row> ranked(std::vector<Row> rows, Time time) {
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) { return time(a) > time(b); });
  Ranked<Row> result;
  for (std::size_t i = kMaxRows; i < rows.size(); ++i) {
    ++result.num_dropped;
    result.dropped_ms += time(rows[i]);
  }
  if (rows.size() > kMaxRows) rows.resize(kMaxRows);
  result.rows = std::move(rows);
  return result;
}

/// Returns the device's time for the kernels that each event launched itself.
std::map<std::int32_t, double> device_ms_of(const Capture& capture) {
  std::map<std::int32_t, double> times;
  for (const CapturedKernel& kernel : capture.kernels) {
    std::int32_t event = kernel.event;
    while (event >= 0 && capture.event(event).kind == EventKind::runtime) event = capture.event(event).parent;
    if (event >= 0) times[event] += static_cast<double>(kernel.end_ns - kernel.begin_ns) / core::kNsPerMs;
  }
  return times;
}

}  // namespace

bool OperatorSummary::has(const std::string& flag) const {
  return std::ranges::find(flags, flag) != flags.end();
}

Ranked<OperatorSummary> analyse_operators(const Capture& capture, const Peaks& peaks) {
  struct Row {
    OperatorSummary summary;
    double conversions = 0;
  };
  const double share = per_step(capture);
  const double step_ms = steps_ms(capture);
  const bool on_device = !capture.kernels.empty();
  const std::map<std::int32_t, double> device_ms = device_ms_of(capture);
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::string>, Row> table;
  for (std::size_t i = 0; i < capture.events.size(); ++i) {
    const CapturedEvent& event = capture.events[i];
    if (event.kind != EventKind::op || event.step < 0) continue;
    const std::string phase = phase_of(capture, event);
    Row& row = table[{event.name, event.shapes, event.dtype, phase}];
    OperatorSummary& sum = row.summary;
    sum.name = capture.name_of(event.name);
    sum.shapes = capture.name_of(event.shapes);
    sum.dtype = capture.name_of(event.dtype);
    sum.phase = phase;
    sum.calls += share;
    sum.self_ms += static_cast<double>(event.self_ns) / core::kNsPerMs * share;
    sum.flops += event.flops * share;
    sum.bytes += event.bytes * share;
    row.conversions += event.converts_layout ? share : 0;
    if (!on_device) continue;
    const auto device = device_ms.find(static_cast<std::int32_t>(i));
    sum.device_ms = sum.device_ms.value_or(0) + (device == device_ms.end() ? 0 : device->second * share);
  }
  std::vector<OperatorSummary> rows;
  for (auto& [key, row] : table) {
    row.summary.roofline_efficiency = roofline_efficiency(row.summary, peaks);
    row.summary.flags = flags_of(row.summary, peaks, step_ms, row.conversions);
    rows.push_back(std::move(row.summary));
  }
  return ranked(std::move(rows), [](const OperatorSummary& row) { return row.self_ms; });
}

Ranked<KernelSummary> analyse_kernels(const Capture& capture, const Peaks& peaks) {
  const double share = per_step(capture);
  std::map<std::tuple<std::int32_t, std::vector<std::int64_t>, std::int64_t>, KernelSummary> table;
  for (const CapturedKernel& kernel : capture.kernels) {
    KernelSummary& row = table[{kernel.name, kernel.grid, kernel.stream}];
    row.name = capture.name_of(kernel.name);
    std::int32_t event = kernel.event;
    while (event >= 0 && capture.event(event).kind == EventKind::runtime) event = capture.event(event).parent;
    if (event >= 0) row.launched_by = capture.name_of(capture.event(event).name);
    row.calls += share;
    row.ms += static_cast<double>(kernel.end_ns - kernel.begin_ns) / core::kNsPerMs * share;
    row.grid = kernel.grid;
    row.block = kernel.block;
    row.registers = kernel.registers;
    row.shared_bytes = kernel.shared_bytes;
    row.occupancy = kernel.occupancy;
    row.stream = kernel.stream;
  }
  std::vector<KernelSummary> rows;
  for (auto& [key, row] : table) {
    const std::string& name = row.name;
    const auto mentions = [&](const char* text) { return name.find(text) != std::string::npos; };
    if (row.ms / row.calls < kTinyKernelMs) row.flags.emplace_back("tiny");
    if (row.occupancy > 0 && row.occupancy < kLowOccupancy) row.flags.emplace_back("low_occupancy");
    if (mentions("nchwToNhwc") || mentions("nhwcToNchw")) row.flags.emplace_back("layout_conversion");
    const bool product = mentions("gemm") || mentions("conv") || mentions("wgrad") || mentions("dgrad");
    const bool in_fp32 = mentions("sgemm") || mentions("s884") || mentions("_f32f32_f32f32") || mentions("fp32_fp32");
    if (product && in_fp32 && bf16_pays(peaks)) row.flags.emplace_back("fp32_matrix");
    rows.push_back(std::move(row));
  }
  return ranked(std::move(rows), [](const KernelSummary& row) { return row.ms; });
}

std::vector<ConvolutionSummary> analyse_convolutions(const Capture& capture) {
  constexpr std::size_t kMost = 3;
  using Shape = std::tuple<std::vector<std::int64_t>, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Shape, ConvolutionSummary> table;
  for (const CapturedConvolution& one : capture.convolutions) {
    const CapturedEvent& event = capture.event(one.event);
    if (event.step < 0) continue;
    ConvolutionSummary& row = table[{one.input, one.weight, one.stride}];
    row = {.input = one.input,
           .weight = one.weight,
           .stride = one.stride,
           .padding = one.padding,
           .dilation = one.dilation,
           .groups = one.groups,
           .ms = row.ms + static_cast<double>(event.duration_ns()) / core::kNsPerMs * per_step(capture)};
  }
  std::vector<ConvolutionSummary> rows;
  for (auto& [shape, row] : table) rows.push_back(std::move(row));
  std::ranges::stable_sort(rows, std::greater{}, &ConvolutionSummary::ms);
  if (rows.size() > kMost) rows.resize(kMost);
  return rows;
}

HostWork analyse_host(const Capture& capture) {
  const double share = per_step(capture);
  HostWork host;
  double num_records = 0;
  for (const CapturedEvent& event : capture.events) {
    if (event.step < 0) continue;
    const std::string& name = capture.name_of(event.name);
    const double ms = static_cast<double>(event.duration_ns()) / core::kNsPerMs;
    if (event.kind == EventKind::op && name == "aten::_local_scalar_dense") host.reads += share;
    if (event.kind == EventKind::runtime && name.find("Synchronize") != std::string::npos &&
        (event.parent < 0 || !capture.name_of(capture.event(event.parent).name).starts_with(kStepSpan)))
      host.sync_ms += ms * share;
    if (event.kind == EventKind::span && name == "recompute") host.recompute_ms += ms * share;
    if (event.kind == EventKind::span && name == "synchronize_batch_norm") host.batch_norm_ms += ms * share;
    if (event.kind == EventKind::span && name == "log") {
      host.record_ms += ms;
      ++num_records;
    }
  }
  if (num_records > 0) host.record_ms /= num_records;
  return host;
}

}  // namespace trainctl::profiler
