// Rows as a table for a terminal.
#pragma once

#include <string>
#include <vector>

namespace trainctl::compare {

using TextRow = std::vector<std::string>;

/// The first column on the left, the others on the right; every row has as many cells as the first. "×" is one column.
std::string align(const std::vector<TextRow>& rows);

}  // namespace trainctl::compare
