// Shared libraries: which are loaded, and what installs one that is missing.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::machine {

/// Returns the path of the library of this process whose file name begins with `name`, or "" if none is loaded.
std::filesystem::path loaded_library(const std::string& name);

/// Returns the file name of the library that the dynamic loader could not find, taken from dlerror()'s text, or "".
std::string missing_library(const std::string& loader_error);

/// Returns the line that gets a library by its file name, for instance "apt-get install libgomp1".
std::string line_that_gets(const std::string& library);

}  // namespace trainctl::machine
