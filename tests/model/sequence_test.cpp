#include "model/sequence.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

namespace trainctl::model::sequence_test {

TEST_CASE("a cache keeps keys and values apart when its room grows", "[model]") {
  KeyValueCache cache;
  std::vector<at::Tensor> keys, values;
  for (const std::int64_t length : {3, 250, 1, 10, 600, 1}) {  // past 256 tokens, and past twice as many
    keys.push_back(at::randn({2, 2, length, 4}));
    values.push_back(at::randn({2, 2, length, 8}));
    const KeyValueCache::KeysValues all = cache.append(0, keys.back(), values.back());
    CHECK(all.keys.equal(at::cat(keys, 2)));
    CHECK(all.values.equal(at::cat(values, 2)));
  }
  CHECK(cache.length() == 865);
}

}  // namespace trainctl::model::sequence_test
