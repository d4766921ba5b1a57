// The checksum by which directories of runs tell whether a config is their own.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace trainctl::experiment {

/// Returns a checksum of LoadedExperiment::flat; equal configs have equal checksums.
std::string config_hash(const std::map<std::string, std::string>& flat);

/// The file of a run directory that holds the checksum of the run's config.
constexpr const char* kConfigHashFile = ".config_hash";

/// Returns whether `directory` is a run's, and the run has the config with this LoadedExperiment::flat.
bool is_run_of(const std::filesystem::path& directory, const std::map<std::string, std::string>& flat);

}  // namespace trainctl::experiment
