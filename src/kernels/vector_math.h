// Vectors of floats in the loops of CPU kernels. For this folder alone.
#pragma once

#include <ATen/Version.h>

#include <cstdint>
#include <cstring>

#include "machine/cpu.h"

namespace trainctl::kernels {

/// A register full of floats. Wider than the machine's registers, GCC would take them apart into single floats.
template <int kNumLanes>
struct Vectors {
  static constexpr std::int64_t kLanes = kNumLanes;
  typedef float Floats __attribute__((vector_size(kNumLanes * sizeof(float))));  // NOLINT(modernize-use-using)
  typedef std::int32_t Ints
      __attribute__((vector_size(kNumLanes * sizeof(std::int32_t))));  // NOLINT(modernize-use-using)
};

/// Any machine's register holds a whole fraction of so many.
constexpr std::int64_t kMaxLanes = 16;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
template <class Loop, class... Arguments>
__attribute__((target("avx512f"))) auto run_avx512(Arguments... arguments) {
  return Loop::template run<Vectors<16>>(arguments...);
}
template <class Loop, class... Arguments>
__attribute__((target("avx2,fma"))) auto run_avx2(Arguments... arguments) {
  return Loop::template run<Vectors<8>>(arguments...);
}
#endif

/// Calls `Loop::run<Vectors<…>>(arguments…)` as compiled for the widest registers that this machine has and LibTorch
/// uses (ATEN_CPU_CAPABILITY can hold a process to less). `run` is a static member template, inlined always.
template <class Loop, class... Arguments>
auto vectorized(Arguments... arguments) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  static const bool is_held_to_avx2 = at::get_cpu_capability() == "AVX2";
  const machine::CpuFeatures& cpu = machine::cpu_features();
  if (cpu.avx512f && !is_held_to_avx2) return run_avx512<Loop>(arguments...);
  if (cpu.avx2 && cpu.fma) return run_avx2<Loop>(arguments...);
#endif
  return Loop::template run<Vectors<4>>(arguments...);
}

/// Does that without AVX-512, for which GCC 12 takes comparisons apart into single floats where two selections share
/// one.
template <class Loop, class... Arguments>
auto vectorized_up_to_avx2(Arguments... arguments) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  const machine::CpuFeatures& cpu = machine::cpu_features();
  if (cpu.avx2 && cpu.fma) return run_avx2<Loop>(arguments...);
#endif
  return Loop::template run<Vectors<4>>(arguments...);
}

#define TRAINCTL_INLINE __attribute__((always_inline)) inline

template <class Floats>
TRAINCTL_INLINE void load(const float* from, Floats& to) {
  std::memcpy(&to, from, sizeof to);
}
template <class Floats>
TRAINCTL_INLINE void store(const Floats& from, float* to) {
  std::memcpy(to, &from, sizeof from);
}

/// exp for x in [-87, 88], about 1e-7 relative: Cephes' expf. Below, the smallest normal numbers.
template <class V>
TRAINCTL_INLINE void exponential(typename V::Floats& x) {
  using Floats = typename V::Floats;
  using Ints = typename V::Ints;
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

/// The sum of all lanes. Halves are added to halves, since a sum lane by lane would wait for each addition.
template <class V>
TRAINCTL_INLINE double sum_of(const typename V::Floats& x) {
  double lanes[V::kLanes];
  for (int lane = 0; lane < V::kLanes; ++lane) lanes[lane] = static_cast<double>(x[lane]);
  for (int half = V::kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

template <class V>
TRAINCTL_INLINE float largest_of(const typename V::Floats& x) {
  float lanes[V::kLanes];
  std::memcpy(lanes, &x, sizeof lanes);
  for (int half = V::kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      lanes[lane] = lanes[lane] < lanes[lane + half] ? lanes[lane + half] : lanes[lane];
  return lanes[0];
}

}  // namespace trainctl::kernels
