// What `auto` became in an experiment whose batch size or recomputation is chosen by the planner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "experiment/load.h"

namespace trainctl::experiment {

/// Values for what is `auto`; nothing where the config gives its own.
struct AutoValues {
  std::optional<std::int64_t> batch_size;
  std::optional<activation_checkpointing::BlocksConfig> blocks;
};

/// Whether the experiment leaves one of them to be chosen.
bool chooses_batch_size(const Experiment& experiment);
bool chooses_recomputation(const Experiment& experiment);

/// Returns the experiment with these values in place of `auto`.
Experiment with_values(Experiment experiment, const AutoValues& values);
/// Returns all forms of the experiment with these values, checked as a whole again.
LoadedExperiment with_values(const LoadedExperiment& loaded, const AutoValues& values);

/// Returns the kind of recomputation with this name; nothing for a name that `auto` never stands for.
std::optional<activation_checkpointing::BlocksConfig> recomputation_named(std::string_view kind);

/// Returns the values that a recorded config, flattened, has.
AutoValues recorded_values(const std::map<std::string, std::string>& config);

/// Whether a recorded config, flattened, asks for the same micro-batches and as many of them in a step.
bool has_same_batches(const Experiment& experiment, const std::map<std::string, std::string>& config);

}  // namespace trainctl::experiment
