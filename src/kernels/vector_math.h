// Vectors of floats in the loops of CPU kernels, which bf16 becomes while it is read. For this folder alone.
#pragma once

#include <ATen/Version.h>
#include <c10/util/BFloat16.h>

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
  typedef std::uint32_t Words
      __attribute__((vector_size(kNumLanes * sizeof(std::uint32_t))));  // NOLINT(modernize-use-using)
  typedef std::uint16_t HalfWords
      __attribute__((vector_size(kNumLanes * sizeof(std::uint16_t))));  // NOLINT(modernize-use-using)
};
template <class Floats>
using VectorsOf = Vectors<sizeof(Floats) / sizeof(float)>;

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

/// Whether this machine has AVX-512 and LibTorch uses it: ATEN_CPU_CAPABILITY can hold a process to less.
inline bool uses_avx512() {
  static const bool is_held_to_avx2 = at::get_cpu_capability() == "AVX2";
  return machine::cpu_features().avx512f && !is_held_to_avx2;
}

/// Calls `Loop::run<Vectors<…>>(arguments…)` as compiled for the widest registers that this machine has and LibTorch
/// uses. `run` is a static member template, inlined always.
template <class Loop, class... Arguments>
auto vectorized(Arguments... arguments) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  const machine::CpuFeatures& cpu = machine::cpu_features();
  if (uses_avx512()) return run_avx512<Loop>(arguments...);
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

/// bf16 is the upper half of a float.
template <class Floats>
TRAINCTL_INLINE void load(const at::BFloat16* from, Floats& to) {
  using V = VectorsOf<Floats>;
  typename V::HalfWords upper;
  std::memcpy(&upper, from, sizeof upper);
  const typename V::Words bits = __builtin_convertvector(upper, typename V::Words) << 16;
  std::memcpy(&to, &bits, sizeof to);
}
/// Rounds to nearest even, as LibTorch does.
template <class Floats>
TRAINCTL_INLINE void store(const Floats& from, at::BFloat16* to) {
  using V = VectorsOf<Floats>;
  typename V::Words bits;
  std::memcpy(&bits, &from, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  bits = from == from ? bits : typename V::Words{} + 0x7fc0;  // of not-a-number
  const typename V::HalfWords upper = __builtin_convertvector(bits, typename V::HalfWords);
  std::memcpy(to, &upper, sizeof upper);
}

/// Fewer elements than a vector has lanes: at the end of a stretch. The other lanes become 0.
template <class T, class Floats>
TRAINCTL_INLINE void load_some(const T* from, std::int64_t count, Floats& to) {
  T all[VectorsOf<Floats>::kLanes] = {};
  std::memcpy(static_cast<void*>(all), from, static_cast<std::size_t>(count) * sizeof(T));
  load(all, to);
}
template <class T, class Floats>
TRAINCTL_INLINE void store_some(const Floats& from, std::int64_t count, T* to) {
  T all[VectorsOf<Floats>::kLanes];
  store(from, all);
  std::memcpy(static_cast<void*>(to), all, static_cast<std::size_t>(count) * sizeof(T));
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
