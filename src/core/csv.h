// Cells of comma-separated values.
#pragma once

#include <string>

namespace trainctl::core {

/// Returns the cell; in quotes where RFC 4180 asks for them.
std::string csv_cell(const std::string& text);

}  // namespace trainctl::core
