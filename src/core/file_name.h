// Names of strangers as names of files.
#pragma once

#include <string>

namespace trainctl::core {

/// Returns the text as the name of a file: `/` and control characters become `_`, and so do `.` and `..`.
std::string file_name_of(std::string text);

}  // namespace trainctl::core
