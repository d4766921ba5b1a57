// Variables of the environment, by which the trackers' own clients are configured too.
#pragma once

#include <cstdlib>
#include <string>

namespace trainctl::tracking {

/// Returns the variable's value; "" if it is not set.
inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace trainctl::tracking
