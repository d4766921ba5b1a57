// Which build of the program this is.
#pragma once

#include <string>

namespace trainctl::machine {

/// Returns the linker's build ID of the library or program that holds this function, as hex digits; "" if it has none.
std::string build_id();

}  // namespace trainctl::machine
