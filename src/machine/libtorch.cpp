#include "machine/libtorch.h"

#include <cstdlib>
#include <regex>
#include <sstream>
#include <vector>

#include "core/text.h"
#include "machine/kernel_files.h"

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtorch_cpu.so";

/// Returns "2.11" of "2.11.0+cu130".
std::string release(const std::string& version) {
  const auto dot = version.find('.');
  return version.substr(0, version.find_first_not_of("0123456789", dot == std::string::npos ? dot : dot + 1));
}

std::string first_match(const std::string& text, const char* pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
}

std::string version_in_header(const std::string& text) {
  const std::string major = first_match(text, "TORCH_VERSION_MAJOR ([0-9]+)");
  const std::string minor = first_match(text, "TORCH_VERSION_MINOR ([0-9]+)");
  const std::string patch = first_match(text, "TORCH_VERSION_PATCH ([0-9]+)");
  return major.empty() || minor.empty() || patch.empty() ? "" : major + "." + minor + "." + patch;
}

/// Returns the directory of the loader's path that holds LibTorch, or "".
fs::path directory_in_loader_path() {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  std::error_code ignored;
  for (std::string directory; std::getline(directories, directory, ':');)
    if (!directory.empty() && fs::exists(fs::path(directory) / kLibrary, ignored)) return directory;
  return {};
}

/// Returns the parent of `lib`, whether or not the path ends with a slash.
fs::path root_of(const fs::path& lib) {
  return (lib.has_filename() ? lib : lib.parent_path()).parent_path();
}

/// Returns the LibTorch that an archive carries in the engine's directory, or that pip installs beside it, or "".
fs::path root_in_package(const fs::path& engine_directory) {
  std::error_code ignored;
  for (const fs::path& directory : {engine_directory, engine_directory.parent_path()})
    if (fs::exists(directory / "torch/lib" / kLibrary, ignored)) return directory / "torch";
  return {};
}

}  // namespace

const char* const kBuiltLibtorchVersion = TRAINCTL_LIBTORCH_VERSION;

std::string libtorch_version(const fs::path& root) {
  const std::string plain(core::trimmed(text_or_empty(root / "build-version"), " \t\r\n"));
  if (!plain.empty()) return plain;
  const std::string python = first_match(text_or_empty(root / "version.py"), "__version__ = '([^']+)'");
  if (!python.empty()) return python;
  for (const char* header : {"include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"})
    if (const std::string version = version_in_header(text_or_empty(root / header)); !version.empty()) return version;
  return "";
}

std::optional<Libtorch> find_libtorch(const fs::path& engine_directory) {
  Libtorch found;
  if (const char* root = std::getenv("TRAINCTL_LIBTORCH")) {
    found = {.root = root, .named_by = "TRAINCTL_LIBTORCH"};
  } else if (const fs::path directory = directory_in_loader_path(); !directory.empty()) {
    found = {.root = root_of(directory), .named_by = "LD_LIBRARY_PATH"};
  } else if (const fs::path packaged = root_in_package(engine_directory); !packaged.empty()) {
    found = {.root = packaged, .named_by = "the package"};
  } else {
    found = {.root = root_of(TRAINCTL_LIBTORCH_LIB_DIR), .named_by = "the build"};
  }
  std::error_code ignored;
  if (!fs::exists(found.root / "lib" / kLibrary, ignored)) return std::nullopt;
  found.version = libtorch_version(found.root);
  return found;
}

std::string version_problem(const Libtorch& libtorch) {
  if (libtorch.version.empty() || release(libtorch.version) == kBuiltLibtorchVersion) return "";
  return "LibTorch " + release(libtorch.version) + " at " + libtorch.root.string() + "; this trainctl was built with " +
         kBuiltLibtorchVersion;
}

std::string line_that_gets_release(const Libtorch& libtorch) {
  const std::string built = kBuiltLibtorchVersion;
  if (libtorch.named_by == "the build") return "scripts/setup.sh installs LibTorch " + built;
  if (libtorch.named_by == "the package") return "pip install torch==" + built + ".0, in the same environment";
  return "name LibTorch " + built + " in " + libtorch.named_by + ", or unset it";
}

std::string missing_instruction_set(const CpuFeatures& features) {
#if defined(__x86_64__)
  // Without SSE4.1, LibTorch loads, and its oneDNN then refuses every convolution and every recurrent layer.
  return features.sse4_1 ? "" : "SSE4.1";
#else
  return "";
#endif
}

}  // namespace trainctl::machine
