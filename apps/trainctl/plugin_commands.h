// Commands of plug-ins on the command line.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace trainctl::cli {

std::vector<std::string> plugin_command_names();

/// Adds the commands of all plug-ins that are loaded. The keys of a command's config are its options.
void add_plugin_commands(CLI::App& app, Action& action);

}  // namespace trainctl::cli
