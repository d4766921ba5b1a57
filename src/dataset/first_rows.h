// A look at the first rows of the tables and texts that a `dataset:` names.
#pragma once

#include "dataset/missing_inputs.h"

namespace trainctl::dataset {

/// Reads the first rows of each set, and returns what is wrong with them. All files must be there.
std::vector<InputProblem> wrong_first_rows(const DatasetConfig& config);

}  // namespace trainctl::dataset
