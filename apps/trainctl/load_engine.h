// Loading the engine library, and LibTorch with it.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::cli {

/// The directory of the engine and of the libraries that it loads: lib/ beside the program's bin/.
std::filesystem::path library_directory();

/// Loads the libraries of the LibTorch that TRAINCTL_LIBTORCH names, if it names one: an installed engine may have been
/// built with a LibTorch that lies elsewhere here, and loaded libraries satisfy its needs by name.
void load_libtorch_named_by_environment();

/// Loads the engine. An Error, before anything is loaded, if the processor lacks an instruction set that LibTorch
/// needs, or if LibTorch is of another version than the one this program was built with.
void* load_engine();

}  // namespace trainctl::cli
