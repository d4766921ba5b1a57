#include "runtime/plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "machine/installation.h"

namespace trainctl::runtime {
namespace fs = std::filesystem;

fs::path own_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&open_plugin), &info) == 0 || info.dli_fname == nullptr) return ".";
  std::error_code ignored;
  return fs::absolute(info.dli_fname, ignored).parent_path();
}

void* Plugin::symbol(const char* name) const {
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

Plugin open_plugin(const std::string& file) {
  const fs::path here = own_directory();
  for (const fs::path& directory : {here, machine::library_directory(here / "program")}) {
    if (!fs::exists(directory / file)) continue;
    void* const library = ::dlopen((directory / file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return {library, ""};
    return {nullptr, ::dlerror()};
  }
  return {nullptr, "this build has no " + file};
}

}  // namespace trainctl::runtime
