// LibTorch as it lies on the disk: where it is and of which version, found without loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "machine/cpu.h"

namespace trainctl::machine {

/// A LibTorch directory: the one with lib/.
struct Libtorch {
  std::filesystem::path root;
  std::string version;   // "2.11.0+cu130"; empty if no file beside the libraries names the version
  std::string named_by;  // "TRAINCTL_LIBTORCH", "LD_LIBRARY_PATH", "the package" or "the build"
};

/// Version that this program was built with, for instance "2.11".
extern const char* const kBuiltLibtorchVersion;

/// Reads the version from a file of the directory: build-version, version.py, or the header version.h.
std::string libtorch_version(const std::filesystem::path& root);

/// Returns the LibTorch that the dynamic loader will take for the engine, or nothing if its library is missing.
/// TRAINCTL_LIBTORCH comes first, then the first LibTorch in LD_LIBRARY_PATH. Then comes the LibTorch of the package:
/// in the engine's directory, or beside it in a Python environment. The LibTorch of the build is the last.
std::optional<Libtorch> find_libtorch(const std::filesystem::path& engine_directory);

/// Returns what keeps this LibTorch from working with this program, or "": another version than the program was built
/// with. Releases with the same first two numbers are compatible; an unknown version is taken for compatible.
std::string version_problem(const Libtorch& libtorch);

/// Returns what gives this LibTorch, which has another release, the release of the build.
std::string line_that_gets_release(const Libtorch& libtorch);

/// Returns the instruction set that LibTorch needs and `features` lack, or "".
std::string missing_instruction_set(const CpuFeatures& features);

}  // namespace trainctl::machine
