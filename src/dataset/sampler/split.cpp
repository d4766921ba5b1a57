#include "dataset/sampler/split.h"

#include <charconv>

#include "core/file.h"
#include "runtime/random.h"

namespace trainctl::dataset {

std::uint64_t key_hash(std::string_view key) {
  const std::string digits = core::checksum(key);
  std::uint64_t hash = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return hash;
}

bool Split::keeps_for_evaluation(std::uint64_t hash) const {
  return static_cast<double>(runtime::mix(seed, runtime::key_of("split"), hash) >> 11) * 0x1.0p-53 < eval_fraction;
}

}  // namespace trainctl::dataset
