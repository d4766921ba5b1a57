// Where a build, a prefix or a Python environment holds the program's libraries.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::machine {

inline constexpr const char* kEngineFile = "libtrainctl_engine.so";

/// Returns the directory with the library `file` of the program at `program`. From the program's bin/, the directory is
/// ../lib in a build, ../lib/trainctl in a prefix, and ../lib/python3.*/site-packages/trainctl_engine in a Python
/// environment. Without the library, returns the directory of a prefix.
std::filesystem::path library_directory(const std::filesystem::path& program, const std::string& file = kEngineFile);

}  // namespace trainctl::machine
