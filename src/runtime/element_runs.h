// Which elements of a tensor a rank has that holds a range of one of its dims.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trainctl::runtime {

/// Some elements of a tensor: runs of equal length at equal distances, as a range of one dim has them. Without a length
/// they are all.
struct ElementRuns {
  std::int64_t length = 0;
  std::int64_t distance = 0;  // from the beginning of a run to that of the next
  std::int64_t first = 0;     // element of the first run

  bool operator==(const ElementRuns&) const = default;
  /// Returns the place in the tensor of element `i` of these.
  std::int64_t at(std::int64_t i) const { return length == 0 ? i : first + i / length * distance + i % length; }
  /// Returns how many of these lie before element `place` of the tensor.
  std::int64_t count_before(std::int64_t place) const {
    if (length == 0) return place;
    if (place <= first) return 0;
    return (place - first) / distance * length + std::min((place - first) % distance, length);
  }
  /// Calls `use(i, place, count)` for each stretch of the tensor that holds elements `begin` to `end` of these.
  template <class Use>
  void for_each_stretch(std::int64_t begin, std::int64_t end, const Use& use) const {
    while (begin < end) {
      const std::int64_t count = length == 0 ? end - begin : std::min(length - begin % length, end - begin);
      use(begin, at(begin), count);
      begin += count;
    }
  }
};

}  // namespace trainctl::runtime
