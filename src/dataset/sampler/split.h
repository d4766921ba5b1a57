// Which samples are kept for evaluation: decided by a hash of each sample's key, so that more data moves none.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainctl::dataset {

/// Returns the XXH3 hash (64 bits) of `key`, equal on every machine and in every version.
std::uint64_t key_hash(std::string_view key);

struct Split {
  double eval_fraction = 0;
  std::uint64_t seed = 0;

  /// Whether the sample with this key_hash is for evaluation.
  bool keeps_for_evaluation(std::uint64_t hash) const;
};

}  // namespace trainctl::dataset
