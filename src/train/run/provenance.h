// Where a result came from: versions, config, data, seed. No clock, no git.
#pragma once

#include <map>
#include <string>

#include "train/run/run.h"

namespace trainctl::train {

std::map<std::string, std::string> provenance(const Run& run, const std::map<std::string, std::string>& config);

}  // namespace trainctl::train
