// Names of models on the Hugging Face Hub where a path is expected: trainctl downloads nothing.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"

namespace trainctl::core {

/// Returns whether a path looks like the name of a model on the hub: `bert-base-uncased`, `org/name`.
bool is_hub_name(std::string_view path);

/// Returns what is wrong with a path of weights at which there is nothing, with a command that downloads them.
std::string missing_weights(const std::string& path);
/// Returns the Error that says so.
Error missing_weights_error(const std::string& path);

}  // namespace trainctl::core
