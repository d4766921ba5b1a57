// What `dataset.batch_size: auto` and `activation_checkpointing: {kind: auto}` stand for, by the memory that a plan
// predicts.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace trainctl {

/// Whether it leaves anything to be chosen.
bool has_choices(const Experiment& experiment);

struct Choices {
  std::vector<Setting> settings;
  std::string why;  // a line for the user
};

/// The largest power of two (up to 512, or the samples of the set) whose step takes at most nine tenths of the memory,
/// and the first of none, selective, every_block and sqrt with which the step fits; where both are open, the first with
/// which at least 16 samples do. A pure function of its arguments, so all ranks that ask choose the same.
Choices choose(const Experiment& experiment, const AbstractOptions& options, const MemoryLimit& limit);

/// What every command but those that train makes of `auto`: they keep no activations.
Experiment without_choices(const Experiment& experiment);

}  // namespace trainctl
