// Which of several sources each sample of a mixture comes from: a fixed pattern, repeated, so that any position is
// known at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainctl::dataset {

class Mixing {
 public:
  /// Makes the pattern of sources by their weights. Weights that are fractions with a small common denominator (0.7,
  /// 0.2, 0.1; 1, 2, 3) are met exactly. Other weights are rounded to parts of 2^20. Of the first N samples, each
  /// source has N × share to within one. Between any two positions it has its share to within two, and to within one if
  /// there are two sources. The pattern is a Pfair schedule on one processor: Baruah et al., "Proportionate progress",
  /// Algorithmica 15, 1996.
  explicit Mixing(std::span<const double> weights);

  struct Turn {
    std::size_t source = 0;
    std::int64_t rank = 0;  // how many of that source's samples came before
  };
  /// The turn at a position, from 0 on without end.
  Turn at(std::int64_t position) const;
  /// How many of a source's samples come before a position.
  std::int64_t count_before(std::size_t source, std::int64_t position) const;
  std::int64_t period() const { return static_cast<std::int64_t>(sources_.size()); }

 private:
  void make_pattern();

  std::vector<std::int64_t> parts_;     // of each source in a period
  std::vector<std::uint16_t> sources_;  // of each turn
  std::vector<std::uint32_t> ranks_;    // of each turn among its source's in the period
};

}  // namespace trainctl::dataset
