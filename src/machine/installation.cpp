#include "machine/installation.h"

#include <algorithm>
#include <string>
#include <vector>

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

bool has(const fs::path& directory, const std::string& file) {
  std::error_code ignored;
  return fs::exists(directory / file, ignored);
}

/// Returns the wheel's directories in a Python environment. One of a user may hold packages of several Pythons.
std::vector<fs::path> wheel_directories(const fs::path& lib, const std::string& file) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& python : fs::directory_iterator(lib, ignored)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"})  // Debian's Python has dist-packages
      if (const fs::path wheel = python.path() / packages / "trainctl_engine"; has(wheel, file)) found.push_back(wheel);
  }
  return found;
}

/// Returns the directory whose `file` was installed last: the program in bin/ is of that installation.
fs::path newest(const std::vector<fs::path>& directories, const std::string& file) {
  return *std::max_element(directories.begin(), directories.end(), [&](const fs::path& a, const fs::path& b) {
    std::error_code ignored;
    return fs::last_write_time(a / file, ignored) < fs::last_write_time(b / file, ignored);
  });
}

}  // namespace

fs::path library_directory(const fs::path& program, const std::string& file) {
  const fs::path lib = program.parent_path().parent_path() / "lib";
  if (has(lib, file)) return lib;
  const fs::path of_prefix = lib / "trainctl";
  if (has(of_prefix, file)) return of_prefix;
  const std::vector<fs::path> wheels = wheel_directories(lib, file);
  return wheels.empty() ? of_prefix : newest(wheels, file);
}

}  // namespace trainctl::machine
