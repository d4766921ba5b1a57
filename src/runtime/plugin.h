// Libraries of ours that lie beside the program and are loaded when they are needed, since what they link is not
// everywhere.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::runtime {

/// Where this code lies: the engine library's directory, or the executable's.
std::filesystem::path own_directory();

/// Stays loaded as long as the process lives.
struct Plugin {
  void* library = nullptr;
  std::string why_not;  // where it is null

  /// Null where the library lacks it, or isn't there.
  void* symbol(const char* name) const;
};

/// `file` in the directory of the engine, or of the executable, or in the lib directory beside that.
Plugin open_plugin(const std::string& file);

}  // namespace trainctl::runtime
