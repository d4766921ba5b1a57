#include "load_plugin.h"

#include <cstdlib>
#include <sstream>

#include "load_engine.h"
#include "plugin/load.h"

namespace trainctl::cli {

void load_plugin(const std::string& path) {
  plugin::load(path, [] { load_engine(); });
}

void load_plugins_of_environment() {
  const char* const named = std::getenv("TRAINCTL_PLUGINS");
  if (named == nullptr) return;
  std::istringstream paths(named);
  for (std::string path; std::getline(paths, path, ':');)
    if (!path.empty()) load_plugin(path);
}

}  // namespace trainctl::cli
