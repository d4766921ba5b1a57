// Vectors of floats in the loops of CPU kernels. For this folder alone.
#pragma once

#include <cstdint>
#include <cstring>

// The loops are compiled for several instruction sets; which one runs is decided when the library is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TRAINCTL_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TRAINCTL_CLONES
#endif

namespace trainctl {

constexpr std::int64_t kLanes = 16;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Ints = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

/// exp for x in [-87, 88], about 1e-7 relative: Cephes' expf. Below, the smallest normal numbers.
__attribute__((always_inline)) inline void exponential(Floats& x) {
  constexpr float kRounding = 12582912.0F;  // 1.5 · 2²³: adding it leaves the nearest integer in the lowest bits
  const Floats least = Floats{} - 87.0F;
  x = x < least ? least : x;
  const Floats shifted = x * 1.44269504088896341F + kRounding;
  const Floats n = shifted - kRounding;
  const Floats r = x - n * 0.693359375F + n * 2.12194440e-4F;
  Floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const Floats fraction = p * r * r + r + 1.0F;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  const Ints exponent = (bits << 23) + 0x3f800000;
  Floats power;
  std::memcpy(&power, &exponent, sizeof power);
  x = fraction * power;
}

}  // namespace trainctl
