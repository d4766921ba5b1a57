#include "runs/run_directories.h"

#include <ctime>

namespace trainctl::runs {
namespace fs = std::filesystem;

fs::path directory_of(std::string name) {
  for (char& c : name)
    if (c == '/' || static_cast<unsigned char>(c) < ' ') c = '_';
  if (name == "." || name == "..") name.assign(name.size(), '_');
  return fs::path("runs") / name;
}

fs::path make_run_directory(const std::string& name, const std::string& ending) {
  const fs::path parent = directory_of(name);
  fs::create_directories(parent);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char stem[32];
  std::strftime(stem, sizeof stem, "%Y%m%dT%H%M%SZ", &utc);
  for (int n = 1;; ++n) {
    fs::path path = parent / (std::string(stem) + "-" + std::to_string(n) + ending);
    if (fs::create_directory(path)) return path;
  }
}

}  // namespace trainctl::runs
