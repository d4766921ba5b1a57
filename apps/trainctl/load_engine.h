// Loading the engine library, and LibTorch with it.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::cli {

/// Returns the directory of the engine and of the libraries that the engine loads.
std::filesystem::path library_directory();

/// Loads a library with the visibility `scope`: RTLD_LOCAL or RTLD_GLOBAL. Throws an Error that names what is missing.
void* open_library(const std::filesystem::path& path, int scope);

/// Loads the libraries of the LibTorch that TRAINCTL_LIBTORCH names, if it is set. The engine's dependencies then
/// resolve by name to the loaded libraries, even if the engine was built with a LibTorch at another path.
void load_libtorch_named_by_environment();

/// Loads the engine and returns its handle. Throws an Error before anything is loaded if the processor lacks an
/// instruction set that LibTorch needs. Another version of LibTorch than the build's, or too little address space, is
/// such an Error, too.
void* load_engine();

}  // namespace trainctl::cli
