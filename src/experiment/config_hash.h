// The checksum by which directories of runs tell whether a config is their own.
#pragma once

#include <map>
#include <string>

namespace trainctl::experiment {

/// Returns a checksum of LoadedExperiment::flat; equal configs have equal checksums.
std::string config_hash(const std::map<std::string, std::string>& flat);

}  // namespace trainctl::experiment
