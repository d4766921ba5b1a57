#include "machine/installation.h"

#include <algorithm>
#include <string>
#include <vector>

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

bool has_engine(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / kEngineFile, ignored);
}

/// Returns the wheel's directories in a Python environment. One of a user may hold packages of several Pythons.
std::vector<fs::path> wheel_directories(const fs::path& lib) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& python : fs::directory_iterator(lib, ignored)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"})  // Debian's Python has dist-packages
      if (const fs::path wheel = python.path() / packages / "trainctl_engine"; has_engine(wheel))
        found.push_back(wheel);
  }
  return found;
}

/// Whether the engine of `a` was installed before that of `b`. The program in bin/ is of the newest installation.
bool is_older(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::last_write_time(a / kEngineFile, ignored) < fs::last_write_time(b / kEngineFile, ignored);
}

}  // namespace

fs::path library_directory(const fs::path& program) {
  const fs::path lib = program.parent_path().parent_path() / "lib";
  if (has_engine(lib)) return lib;
  const fs::path of_prefix = lib / "trainctl";
  if (has_engine(of_prefix)) return of_prefix;
  const std::vector<fs::path> wheels = wheel_directories(lib);
  return wheels.empty() ? of_prefix : *std::max_element(wheels.begin(), wheels.end(), is_older);
}

}  // namespace trainctl::machine
