#include "kernels/drop_words.h"

#include <algorithm>
#include <cmath>

#include "kernels/device/philox.h"
#include "kernels/vector_math.h"
#include "machine/cpu.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#define TRAINCTL_HAS_INTRINSICS
#endif

namespace trainctl::kernels {
namespace {

/// What all counters of a row share, and the first of them.
struct Counters {
  std::uint32_t first;
  std::uint32_t row;
  std::uint32_t sample_low;
  std::uint32_t sample_high;
};

void draw_block(std::uint64_t key, const Counters& from, std::uint32_t* words) {
  constexpr std::uint32_t kLanes = 16;
  std::uint32_t lanes[4][kLanes];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    lanes[0][lane] = from.first + lane;
    lanes[1][lane] = from.row;
    lanes[2][lane] = from.sample_low;
    lanes[3][lane] = from.sample_high;
  }
  device::philox(lanes, key);
  for (std::size_t word = 0; word < 4; ++word) std::copy_n(lanes[word], kLanes, words + word * kLanes);
}

#if defined(TRAINCTL_HAS_INTRINSICS)
// GCC 12 warns of what its own intrinsics leave undefined on purpose:
// https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105593
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// GCC takes a product of 32 bits by 32 bits for one of 64 by 64. The processors' own multiplies every other lane: the
// lanes between are moved beside it, multiplied and put back.
__attribute__((target("avx512f"))) inline __m512i all_of_512(std::uint32_t word) {
  return _mm512_set1_epi32(static_cast<int>(word));
}
__attribute__((target("avx2"))) inline __m256i all_of_256(std::uint32_t word) {
  return _mm256_set1_epi32(static_cast<int>(word));
}

__attribute__((target("avx512f"))) void draw_block_avx512(std::uint64_t key, const Counters& from,
                                                          std::uint32_t* words) {
  constexpr __mmask16 kOdd = 0xaaaa;
  const __m512i multiplier0 = all_of_512(device::Philox::kMultiplier0),
                multiplier1 = all_of_512(device::Philox::kMultiplier1);
  __m512i c0 =
      _mm512_add_epi32(all_of_512(from.first), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  __m512i c1 = all_of_512(from.row), c2 = all_of_512(from.sample_low), c3 = all_of_512(from.sample_high);
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < device::Philox::kRounds; ++round) {
    const __m512i even0 = _mm512_mul_epu32(c0, multiplier0);
    const __m512i odd0 = _mm512_mul_epu32(_mm512_srli_epi64(c0, 32), multiplier0);
    const __m512i even1 = _mm512_mul_epu32(c2, multiplier1);
    const __m512i odd1 = _mm512_mul_epu32(_mm512_srli_epi64(c2, 32), multiplier1);
    const __m512i high0 = _mm512_mask_blend_epi32(kOdd, _mm512_srli_epi64(even0, 32), odd0);
    const __m512i high1 = _mm512_mask_blend_epi32(kOdd, _mm512_srli_epi64(even1, 32), odd1);
    c0 = _mm512_xor_si512(_mm512_xor_si512(high1, c1), all_of_512(key0));
    c2 = _mm512_xor_si512(_mm512_xor_si512(high0, c3), all_of_512(key1));
    c1 = _mm512_mask_blend_epi32(kOdd, even1, _mm512_slli_epi64(odd1, 32));
    c3 = _mm512_mask_blend_epi32(kOdd, even0, _mm512_slli_epi64(odd0, 32));
    key0 += device::Philox::kKeyStep0;
    key1 += device::Philox::kKeyStep1;
  }
  _mm512_storeu_si512(words, c0);
  _mm512_storeu_si512(words + 16, c1);
  _mm512_storeu_si512(words + 32, c2);
  _mm512_storeu_si512(words + 48, c3);
}

/// Half of a block.
__attribute__((target("avx2"))) void draw_half_avx2(std::uint64_t key, const Counters& from, std::uint32_t* words) {
  constexpr int kOdd = 0xaa;
  const __m256i multiplier0 = all_of_256(device::Philox::kMultiplier0),
                multiplier1 = all_of_256(device::Philox::kMultiplier1);
  __m256i c0 = _mm256_add_epi32(all_of_256(from.first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i c1 = all_of_256(from.row), c2 = all_of_256(from.sample_low), c3 = all_of_256(from.sample_high);
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < device::Philox::kRounds; ++round) {
    const __m256i even0 = _mm256_mul_epu32(c0, multiplier0);
    const __m256i odd0 = _mm256_mul_epu32(_mm256_srli_epi64(c0, 32), multiplier0);
    const __m256i even1 = _mm256_mul_epu32(c2, multiplier1);
    const __m256i odd1 = _mm256_mul_epu32(_mm256_srli_epi64(c2, 32), multiplier1);
    const __m256i high0 = _mm256_blend_epi32(_mm256_srli_epi64(even0, 32), odd0, kOdd);
    const __m256i high1 = _mm256_blend_epi32(_mm256_srli_epi64(even1, 32), odd1, kOdd);
    c0 = _mm256_xor_si256(_mm256_xor_si256(high1, c1), all_of_256(key0));
    c2 = _mm256_xor_si256(_mm256_xor_si256(high0, c3), all_of_256(key1));
    c1 = _mm256_blend_epi32(even1, _mm256_slli_epi64(odd1, 32), kOdd);
    c3 = _mm256_blend_epi32(even0, _mm256_slli_epi64(odd0, 32), kOdd);
    key0 += device::Philox::kKeyStep0;
    key1 += device::Philox::kKeyStep1;
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), c0);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 16), c1);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 32), c2);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 48), c3);
}

void draw_block_avx2(std::uint64_t key, const Counters& from, std::uint32_t* words) {
  Counters second = from;
  second.first += 8;
  draw_half_avx2(key, from, words);
  draw_half_avx2(key, second, words + 8);
}
#pragma GCC diagnostic pop
#endif

using DrawBlock = void (*)(std::uint64_t key, const Counters& from, std::uint32_t* words);

DrawBlock fastest_here() {
#if defined(TRAINCTL_HAS_INTRINSICS)
  if (uses_avx512()) return &draw_block_avx512;
  if (machine::cpu_features().avx2) return &draw_block_avx2;
#endif
  return &draw_block;
}

}  // namespace

void draw_words(std::uint64_t key, const WordPlace& place, std::int64_t first, std::int64_t count,
                std::uint32_t* words) {
  static const DrawBlock draw = fastest_here();
  Counters from{.first = static_cast<std::uint32_t>(first / 4),
                .row = place.row,
                .sample_low = static_cast<std::uint32_t>(place.sample),
                .sample_high = static_cast<std::uint32_t>(place.sample >> 32)};
  for (std::int64_t done = 0; done < count; done += device::kWordsPerBlock, from.first += device::kWordsPerBlock / 4)
    draw(key, from, words + done);
}

std::uint32_t drop_threshold(double probability) {
  return static_cast<std::uint32_t>(std::min(std::floor(probability * 0x1p32 + 0.5), 0x1p32 - 1));
}

}  // namespace trainctl::kernels
