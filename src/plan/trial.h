// Steps of a run in earnest, before the run: whether what was chosen by a prediction fits.
#pragma once

#include <cstdint>
#include <string>

#include "plan/dry_run.h"
#include "plan/fit.h"

namespace trainctl::plan {

enum class TrialOutcome {
  fits,
  out_of_memory,
  not_made  // another failure, which the run itself will tell
};

struct Trial {
  TrialOutcome outcome = TrialOutcome::not_made;
  std::int64_t peak_bytes = 0;  // of tensors on the device; of a failure: until then
  double seconds = 0;
  std::string failure{};  // what there was no memory for
};

/// Where the trial computes.
struct TrialPlace {
  c10::Device device;
  std::int64_t world = 1;
  std::int64_t local_world = 1;
  MemoryLimit limit{};  // of this rank; on the CPU tensors that would take more are refused
};

/// Makes two steps of the run that `experiment`, which has no `auto`, describes. It takes the first batches, and acts
/// as the first rank without the others. It keeps nothing, so a run that is built afterwards begins as if no trial had
/// been. The second step is needed because only the first allocates the memory that stays. It accumulates at most two
/// micro-batches.
Trial try_steps(const experiment::Experiment& experiment, const TrialPlace& place);

}  // namespace trainctl::plan
