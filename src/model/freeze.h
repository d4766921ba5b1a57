// Parameters that aren't trained, chosen by name.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"

namespace trainctl::model {

/// Makes the parameters that the patterns choose not trainable, so that they get no gradient and no optimizer state.
/// The last pattern that fits a parameter counts; with `!` before it, the parameter is trained. Before materialize().
/// Throws Error for a pattern that fits nothing, and if nothing is left to train.
void freeze(Model& model, const std::vector<std::string>& patterns);

}  // namespace trainctl::model
