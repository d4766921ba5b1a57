// All commands with their options, as the parser, the completion and the manual pages see them.
#pragma once

#include <string>

#include "command.h"

namespace trainctl::cli {

/// Adds every command to `app`, each with its examples. Parsing sets `action` to what the chosen command does.
void add_commands(CLI::App& app, Action& action);

/// Returns "data prepare" for the sub-command, and "" for the program.
std::string command_path(const CLI::App& command);

}  // namespace trainctl::cli
