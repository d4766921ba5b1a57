// A run put back to where a checkpoint left it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "train/run.h"

namespace trainctl {

/// Loads weights, optimizer, scaler, averages and the place in the data; `sink` hears what differs from the checkpoint:
/// changed config keys, other data, state that has no place.
void restore(Run& run, const std::filesystem::path& step_directory, const std::map<std::string, std::string>& config,
             Sink& sink);

/// The step directory that `path` means (a step, checkpoints or run directory, whose newest complete one is taken).
std::filesystem::path step_directory_of(const std::filesystem::path& path);

}  // namespace trainctl
