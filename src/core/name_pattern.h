// Patterns for dotted names, as of layers and blocks.
#pragma once

#include <string>

namespace trainctl::core {

/// Tells whether the name, or its end behind a dot, fits the shell's pattern (fnmatch). `*` crosses dots and slashes.
bool matches_name(const std::string& pattern, const std::string& name);

/// Tells whether the pattern fits a parameter's name, or that of a layer that contains the parameter.
bool covers_parameter(const std::string& pattern, const std::string& parameter);

}  // namespace trainctl::core
