#include "dataset/chat/packing.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/error.h"

namespace trainctl::dataset {

PackedRows pack_best_fit(std::span<const std::int64_t> lengths, std::int64_t row_length) {
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length_of = [&](std::int32_t piece) { return lengths[static_cast<std::size_t>(piece)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return length_of(a) > length_of(b); });
  PackedRows rows;
  std::set<std::pair<std::int64_t, std::size_t>> open;  // room, row
  for (const std::int32_t piece : order) {
    core::ensure(length_of(piece) <= row_length, "a piece fits into a row");
    const auto found = open.lower_bound({length_of(piece), 0});
    std::int64_t room = row_length;
    std::size_t row = rows.size();
    if (found == open.end()) {
      rows.emplace_back();
    } else {
      std::tie(room, row) = *found;
      open.erase(found);
    }
    rows[row].push_back(piece);
    room -= length_of(piece);
    if (room > 0) open.insert({room, row});
  }
  for (std::vector<std::int32_t>& row : rows) std::sort(row.begin(), row.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace trainctl::dataset
