// What a `dataset:` names and isn't there. Names are looked at, never contents.
#pragma once

#include <string>
#include <vector>

#include "dataset/config.h"

namespace trainctl::dataset {

/// Files, directories, globs and tokenizers of all sources and both phases, in the config's order; empty: all there.
std::vector<InputProblem> missing_inputs(const DatasetConfig& config);

}  // namespace trainctl::dataset
