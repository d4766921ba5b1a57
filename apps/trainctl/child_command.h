// Another command of this program, as a process that ends with this one.
#pragma once

#include <string>
#include <vector>

namespace trainctl::cli {

/// Runs this program with `arguments`, on the same terminal, until it ends. Stop signals go on to it. Returns its exit
/// code; 128 + n where signal n ended it.
int run_command(const std::vector<std::string>& arguments);

}  // namespace trainctl::cli
