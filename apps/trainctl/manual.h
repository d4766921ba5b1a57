// Manual pages of all commands, for man.
#pragma once

#include <filesystem>

#include "command.h"

namespace trainctl::cli {

/// Writes trainctl.1, and trainctl-COMMAND.1 for each command, into the directory.
void write_manual(const CLI::App& program, const std::filesystem::path& directory);

}  // namespace trainctl::cli
