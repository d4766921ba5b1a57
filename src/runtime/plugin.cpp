#include "runtime/plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "machine/installation.h"

namespace trainctl::runtime {
namespace {

namespace fs = std::filesystem;

/// Returns the directory of this code: that of the engine library, or of the executable.
fs::path own_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&open_plugin), &info) == 0 || info.dli_fname == nullptr) return ".";
  std::error_code ignored;
  return fs::absolute(info.dli_fname, ignored).parent_path();
}

}  // namespace

fs::path find_plugin(const std::string& file) {
  const fs::path here = own_directory();
  for (const fs::path& directory : {here, machine::library_directory(here / "program", file)})
    if (fs::exists(directory / file)) return directory / file;
  return {};
}

void* Plugin::symbol(const char* name) const {
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

Plugin open_plugin(const std::string& file) {
  const fs::path path = find_plugin(file);
  if (path.empty()) return {nullptr, "this build has no " + file};
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return {library, library == nullptr ? ::dlerror() : ""};
}

}  // namespace trainctl::runtime
