// Libraries of ours that lie beside the program and are loaded when they are needed, since what they link is not
// everywhere.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::runtime {

/// Returns where `file` is: in the directory of the engine or the executable, or in the lib directory beside that.
/// Empty where it isn't.
std::filesystem::path find_plugin(const std::string& file);

/// Stays loaded as long as the process lives.
struct Plugin {
  void* library = nullptr;
  std::string why_not;  // where it is null

  /// Null where the library lacks it, or isn't there.
  void* symbol(const char* name) const;
};

Plugin open_plugin(const std::string& file);

}  // namespace trainctl::runtime
