// Conversations in rows of a fixed number of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainctl::dataset {

/// Numbers of pieces, row by row.
using PackedRows = std::vector<std::vector<std::int32_t>>;

/// Puts each piece into the fullest row that has room for it, the longest pieces first (best fit, decreasing). Pieces
/// of a row are in their own order, and rows in the order of their first pieces. `lengths` are at most `row_length`.
PackedRows pack_best_fit(std::span<const std::int64_t> lengths, std::int64_t row_length);

}  // namespace trainctl::dataset
