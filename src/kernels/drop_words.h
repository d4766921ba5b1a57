// The random words by which dropout decides, as a function of an element's place. For this folder alone.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/device/philox.h"
#include "kernels/vector_math.h"

namespace trainctl::kernels {

/// A row of a sample.
struct WordPlace {
  std::uint64_t sample = 0;
  std::uint32_t row = 0;
};

/// Draws `words` for `count` elements of a row from `first`, a multiple of device::kWordsPerBlock. It draws whole
/// blocks. Philox4x32-10 (kernels/device/philox.h); the same bits on all processors.
void draw_words(std::uint64_t key, const WordPlace& place, std::int64_t first, std::int64_t count,
                std::uint32_t* words);

/// Words below it zero an element.
std::uint32_t drop_threshold(double probability);

/// What dropout multiplies a vector of elements by: 0 where their word is below the threshold, `kept` elsewhere.
template <class V>
TRAINCTL_INLINE void drop_factors(const std::uint32_t* words, std::uint32_t threshold, float kept,
                                  typename V::Floats& factors) {
  typename V::Words drawn;
  std::memcpy(&drawn, words, sizeof drawn);
  factors = drawn < threshold ? typename V::Floats{} : typename V::Floats{} + kept;
}

}  // namespace trainctl::kernels
