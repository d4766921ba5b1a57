// What an experiment is for a prediction on a cluster.
#pragma once

#include <cstdint>
#include <optional>

#include "cluster/layout.h"
#include "cluster/transformer.h"
#include "experiment/load.h"

namespace trainctl::cli {

/// Returns the dimensions of the experiment's Transformer. Throws ConfigError for another network, and for a length or
/// a vocabulary that only the data tell.
cluster::Transformer transformer_of(const experiment::LoadedExperiment& loaded);

/// Returns what products read. Throws ConfigError for 32 bits.
cluster::Precision precision_of(const experiment::LoadedExperiment& loaded);

/// Returns the experiment's own layout of `world` ranks. Returns none if `distributed:` names no axis, if its axes
/// don't divide the world, or if a run chooses the batch.
std::optional<cluster::Layout> own_layout(const experiment::LoadedExperiment& loaded, std::int64_t world);

/// Returns the sequences of one step of the experiment on `world` ranks. Throws ConfigError if only a run chooses them.
std::int64_t global_batch_of(const experiment::LoadedExperiment& loaded, std::int64_t world);

}  // namespace trainctl::cli
