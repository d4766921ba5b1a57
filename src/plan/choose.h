// What `dataset.batch_size: auto` and `activation_checkpointing: {kind: auto}` stand for, by the memory that a plan
// predicts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace trainctl::plan {

/// Whether it leaves anything to be chosen.
bool has_choices(const experiment::Experiment& experiment);

struct Choices {
  std::vector<Setting> settings;
  std::string what;           // "dataset.batch_size: 32 and activation_checkpointing.kind: none"
  std::string why;            // a line for the user
  std::int64_t batch = 0;     // dataset.batch_size, chosen or given
  std::string recomputation;  // activation_checkpointing.kind; empty: given
};

/// The largest power of two (up to 512, or the samples of the set) whose step takes at most nine tenths of the memory,
/// and the first of none, selective_op, full and sqrt with which the step fits; where both are open, the first with
/// which at least 16 samples do. A pure function of its arguments, so all ranks that ask choose the same.
Choices choose(const experiment::Experiment& experiment, const DryRunOptions& options, const MemoryLimit& limit);

/// The next choice after one that didn't fit after all: half the batch, and, where that would leave fewer than 16
/// samples or none to halve, first the recomputation that saves more. Nothing: none is smaller.
std::optional<Choices> next_smaller(const experiment::Experiment& experiment, const Choices& tried);

/// What every command but those that train makes of `auto`: they keep no activations.
experiment::Experiment without_choices(const experiment::Experiment& experiment);

}  // namespace trainctl::plan
