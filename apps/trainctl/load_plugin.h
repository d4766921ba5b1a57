// Plug-ins in this program.
#pragma once

#include <string>

namespace trainctl::cli {

/// Loads the engine, and then a plug-in. Throws core::Error if the file is no plug-in of this build.
void load_plugin(const std::string& path);

/// Loads the plug-ins that TRAINCTL_PLUGINS names, with colons between them: for the commands that take no experiment.
void load_plugins_of_environment();

}  // namespace trainctl::cli
