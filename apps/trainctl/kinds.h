// `trainctl config kinds`: all that can be chosen, as a page of links.
#pragma once

#include <string>

#include "command.h"

namespace trainctl::cli {

/// Returns docs/kinds.md. `program` has every command.
std::string kinds_page(const CLI::App& program);

}  // namespace trainctl::cli
