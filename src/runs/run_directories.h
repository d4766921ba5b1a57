// Where the runs of an experiment are: runs/NAME/TIME-N.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::runs {

/// Returns runs/NAME. In the name, `/` and control characters become `_`, and so do `.` and `..`.
std::filesystem::path directory_of(std::string name);

/// Makes a directory there that is new, whoever else makes one. Its name sorts by time, and ends with `ending`.
std::filesystem::path make_run_directory(const std::string& name, const std::string& ending = "");

}  // namespace trainctl::runs
