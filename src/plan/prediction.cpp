#include "plan/prediction.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>

#include "core/text.h"
#include "core/units.h"
#include "machine/limits.h"

namespace trainctl::plan {
namespace {

/// The share of a step's bytes whose rates must be known to predict its time.
constexpr double kKnownShare = 0.95;

}  // namespace

RecordedPlan plan_with_operations(const experiment::Experiment& experiment, DryRunOptions options,
                                  const MemoryLimit& limit, FitSearch search) {
  RecordedPlan plan;
  bool is_recorded = false;  // only the experiment's own step, not those that are tried
  options.around_step = [&](const std::function<void()>& step) {
    if (is_recorded) return step();
    roofline::OperationRecorder recorder;
    step();
    plan.operations = recorder.take();
    is_recorded = true;
  };
  plan.memory = plan_memory(experiment, options, limit, search);
  constexpr double kBytesOfGradient = 4;
  const DryRunStep& step = plan.memory.step;
  plan.traffic = traffic_of(experiment.distributed, step.num_sharing_gradients,
                            kBytesOfGradient * static_cast<double>(step.num_trained));
  plan.traffic.within_layers = step.sent_bytes;
  return plan;
}

PlannedDevice planned(c10::Device device) {
  return device.is_cpu() ? PlannedDevice::cpu : PlannedDevice::cuda;
}

MemoryLimit memory_of(const experiment::Experiment& experiment, c10::Device device, std::int64_t local_ranks) {
  const std::optional<std::int64_t>& asked = experiment.device.memory_limit_mib;
  if (device.is_cpu()) {
    // What tensors are limited to is theirs: libraries take theirs beside it.
    if (asked) {
      const bool share_a_process = config::traits_of(experiment.distributed.how).ranks_are_threads;
      return {.bytes = *asked * core::kMiB / (share_a_process ? std::max<std::int64_t>(1, local_ranks) : 1),
              .overhead = 0};
    }
    return cpu_limit(static_cast<std::int64_t>(machine::usable_memory()) / std::max<std::int64_t>(1, local_ranks));
  }
  const auto total = static_cast<std::int64_t>(at::accelerator::getMemoryInfo(device.index()).second);
  return gpu_limit(asked ? std::min(total, *asked * core::kMiB) : total);
}

bool knows_rates(const RecordedPlan& plan, const MeasuredRates& rates) {
  double all = 0;
  double known = 0;
  for (const roofline::Operation& operation : plan.operations.list) {
    all += operation.bytes;
    if (rates.knows(key_of(operation))) known += operation.bytes;
  }
  return all > 0 && known >= kKnownShare * all;
}

std::string prediction_line(const RecordedPlan& plan, const MeasuredRates& rates) {
  const std::string memory =
      "estimated memory: " + core::format_bytes(static_cast<double>(plan.memory.step.at_peak.total()));
  if (!plan.memory.step.stages.empty()) return memory + " on the rank that holds most";
  if (!knows_rates(plan, rates)) return memory + "; `trainctl plan` also estimates the time of a step";
  const PredictedTime time = predict_step_time(plan.operations, rates.rates(), plan.traffic);
  return memory + ", " + core::format_duration(time.step_ms / 1e3) + " a step";
}

}  // namespace trainctl::plan
