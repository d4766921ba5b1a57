// An option, or what stands on the command line, that can't be used in this way.
#pragma once

#include <string>
#include <utility>

#include "core/error.h"

namespace trainctl::cli {

/// Makes the error of a wrong use, which ends with exit code 2. `where`: the option or the path.
inline core::ConfigError wrong_use(std::string where, std::string message) {
  return core::ConfigError({{.where = std::move(where), .path = "", .message = std::move(message)}});
}

}  // namespace trainctl::cli
