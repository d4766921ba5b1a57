// Memory and time of a run together, for those who are about to start it.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "plan/plan.h"
#include "plan/time/device_rates.h"
#include "plan/time/step_time.h"

namespace trainctl::plan {

/// A plan of memory, with the operators of the step that it is of.
struct RecordedPlan {
  MemoryPlan memory;
  roofline::Operations operations;
  Traffic traffic;
};
RecordedPlan plan_with_operations(const experiment::Experiment& experiment, DryRunOptions options,
                                  const MemoryLimit& limit, FitSearch search);

/// What a rank may take of the device under it: device.memory_limit_mib, else its memory; the CPU's is shared by the
/// ranks of the machine.
MemoryLimit memory_of(const experiment::Experiment& experiment, c10::Device device, std::int64_t local_ranks);
PlannedDevice planned(c10::Device device);

/// Formats "estimated memory: 1.9 GiB, 140.0 ms a step": the tensors of a step, and its time. Without rates that were
/// measured before, names the command that measures them instead of the time.
std::string prediction_line(const RecordedPlan& plan, const MeasuredRates& rates);

/// Whether the rates of nearly all the step's work are known.
bool knows_rates(const RecordedPlan& plan, const MeasuredRates& rates);

}  // namespace trainctl::plan
