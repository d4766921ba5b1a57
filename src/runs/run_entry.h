// One run directory, read from its small files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runs/runs.h"

namespace trainctl::runs {

/// Whether `train` made the directory: it has a run's records, or a config with its hash.
bool is_run(const std::filesystem::path& directory);

/// Reads the run's state and figures. What is damaged is missing; what can't be read is a problem, too.
RunEntry read_entry(const std::filesystem::path& directory, std::vector<std::string>& problems);

/// Returns the bytes of all files below. A link counts for itself.
std::uint64_t size_of(const std::filesystem::path& directory, std::vector<std::string>& problems);

}  // namespace trainctl::runs
