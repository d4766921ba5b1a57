// What `dataset.batch_size: auto` and `activation_checkpointing: {kind: auto}` stand for, by the memory that a plan
// predicts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiment/auto_values.h"
#include "plan/plan.h"

namespace trainctl::plan {

/// Whether it leaves anything to be chosen.
bool has_choices(const experiment::Experiment& experiment);

struct Choices {
  experiment::AutoValues values{};
  std::int64_t batch = 0;  // dataset.batch_size, chosen or given
  std::string what{};      // "dataset.batch_size: 32 and activation_checkpointing.kind: none"
  std::string why{};       // a line for the user
};

/// Chooses as batch size the largest power of two (up to 512) with which a step takes at most nine tenths of the
/// memory. Chooses as recomputation the first of none, selective_op, full and sqrt with which the step fits. If both
/// are open, it takes the first recomputation with which at least 16 samples fit, or else that with the largest batch.
/// The result depends on the arguments only, so all ranks that ask choose the same.
Choices choose(const experiment::Experiment& experiment, const DryRunOptions& options, const MemoryLimit& limit);

/// Returns the next choice after one that didn't fit: half the batch. If half the batch has fewer than 16 samples, or
/// nothing can be halved, the recomputation that saves more comes first. Returns nothing if no choice is smaller.
std::optional<Choices> next_smaller(const experiment::Experiment& experiment, const Choices& tried);

/// What every command but those that train makes of `auto`: they keep no activations.
experiment::Experiment without_choices(const experiment::Experiment& experiment);

}  // namespace trainctl::plan
