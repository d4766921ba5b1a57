// What fits into a device's memory, and the smallest change where an experiment doesn't. Every answer has been run on
// tensors without values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/dry_run.h"

namespace trainctl::plan {

struct MemoryLimit {
  std::int64_t bytes = 0;     // of a rank's device
  std::int64_t overhead = 0;  // that a process takes beside its tensors: libraries, the device's context
  std::int64_t for_tensors() const { return bytes - overhead; }
};

/// Returns the limit of a rank on this machine's CPU, with the overhead of its process. `bytes`: its even share of the
/// memory.
MemoryLimit cpu_limit(std::int64_t bytes);
/// Returns the limit of a rank on a GPU, with the overhead of its process. `bytes`: the GPU's memory, such as its data
/// sheet's.
MemoryLimit gpu_limit(std::int64_t bytes);

/// The largest dataset.batch_size whose peak fits; 0: not even one sample does. `known`: the experiment's own step.
std::int64_t largest_batch(const experiment::Experiment& experiment, const DryRunOptions& options,
                           const MemoryLimit& limit, const DryRunStep& known);

/// A line of YAML.
struct Setting {
  std::string path;   // "dataset.batch_size"
  std::string value;  // "16"
};

/// Settings with which the experiment fits.
struct FitSuggestion {
  std::vector<Setting> settings;
  std::string why;  // what is given for it
  std::int64_t peak_bytes = 0;
};

/// Ways to make it fit, the one that costs least first; empty: none that was tried. Each holds the global batch.
std::vector<FitSuggestion> changes_that_fit(const experiment::Experiment& experiment, const DryRunOptions& options,
                                            const MemoryLimit& limit);

}  // namespace trainctl::plan
