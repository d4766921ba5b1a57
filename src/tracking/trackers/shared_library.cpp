#include "tracking/trackers/shared_library.h"

#include <dlfcn.h>

#include "core/error.h"

namespace trainctl::tracking {

SharedLibrary::SharedLibrary(const std::string& file, const std::string& package)
    : file_(file), library_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr)
    throw core::Error(std::string("cannot load ") + ::dlerror()).hint("apt-get install " + package);
}

void* SharedLibrary::address(const char* name) const {
  void* const found = ::dlsym(library_, name);
  if (found == nullptr) throw core::Error(file_ + " has no function " + name).hint("install a newer " + file_);
  return found;
}

}  // namespace trainctl::tracking
