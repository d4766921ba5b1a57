// What an experiment will take, before anything runs: the front door of src/plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "plan/dry_run.h"
#include "plan/fit.h"
#include "runtime/config.h"

namespace trainctl::plan {

struct MemoryPlan {
  DryRunStep step;
  MemoryLimit limit;                   // of a rank
  std::int64_t largest_batch = 0;      // dataset.batch_size; 0: not even one sample fits
  std::vector<FitSuggestion> changes;  // where it doesn't fit: what makes it, the one that costs least first

  bool fits() const { return step.at_peak.total() <= limit.for_tensors(); }
  /// Returns whether it doesn't fit even if the prediction is off by as much as predictions are.
  bool surely_exceeds() const;
};

enum class FitSearch { none, largest_batch };

/// `search`: whether to look for the largest batch too. Changes are looked for where it doesn't fit.
MemoryPlan plan_memory(const experiment::Experiment& experiment, const DryRunOptions& options, const MemoryLimit& limit,
                       FitSearch search = FitSearch::largest_batch);

/// "needs 9.3 GiB on each rank, of which 7.1 GiB are activations, but there are 7.7 GiB; it fits with
/// dataset.batch_size: 8, accumulation.steps: 4". Empty: it fits.
std::string warning_of(const MemoryPlan& plan);

/// Returns the error that refuses a run that won't fit, with the key of the limit and what makes it fit.
core::Error refusal_of(const MemoryPlan& plan, const runtime::DeviceConfig& device);

/// "dataset.batch_size: 8, accumulation.steps: 4"
std::string text_of(const std::vector<Setting>& settings);

}  // namespace trainctl::plan
