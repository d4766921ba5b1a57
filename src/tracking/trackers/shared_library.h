// A library of the system that few runs need: it is loaded by the tracker that calls it, so nothing else depends on it.
// Its functions are those that its header declares.
#pragma once

#include <string>

namespace trainctl::tracking {

class SharedLibrary {
 public:
  /// Loads `file`. Throws an Error with a hint that names Debian's package if the file is missing.
  SharedLibrary(const std::string& file, const std::string& package);

  /// Sets a pointer to the function of this name, whose type is that of the header's declaration.
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  std::string file_;
  void* library_;
};

}  // namespace trainctl::tracking
