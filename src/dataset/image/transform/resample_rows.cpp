#include "dataset/image/transform/resample_rows.h"

#include <algorithm>

#include "machine/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trainctl::dataset {
namespace {

std::uint8_t rounded(std::int32_t sum, int precision) {
  return static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
}

void mix_rows_plain(const MixRows& mix) {
  for (std::int64_t i = 0; i < mix.bytes; ++i) {
    std::int32_t sum = 1 << (mix.precision - 1);
    for (std::int64_t k = 0; k < mix.length; ++k) sum += mix.weights[k] * mix.rows[k][i];
    mix.output[i] = rounded(sum, mix.precision);
  }
}

void mix_columns_plain(const MixColumns& mix) {
  for (std::int64_t x = 0; x < mix.width; ++x)
    for (std::int64_t c = 0; c < mix.channels; ++c) {
      std::int32_t sum = 1 << (mix.precision - 1);
      const std::uint8_t* in = mix.row + mix.first[x] * mix.channels + c;
      for (std::int64_t k = 0; k < mix.length[x]; ++k) sum += mix.weights[x * mix.stride + k] * in[k * mix.channels];
      mix.output[x * mix.channels + c] = rounded(sum, mix.precision);
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) __m256i load(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// Returns two neighboring weights in every 32 bits.
__attribute__((target("avx2"))) __m256i pair_of(const std::int16_t* weights) {
  return _mm256_set1_epi32(
      static_cast<std::uint16_t>(weights[0]) |
      static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint16_t>(weights[1])) << 16));
}

/// Mixes 32 bytes from `at` on. Rows are interleaved in pairs, so that one multiply-add takes both.
__attribute__((target("avx2"))) void mix_32(const MixRows& mix, std::int64_t at) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i half = _mm256_set1_epi32(1 << (mix.precision - 1));
  __m256i sum[4] = {half, half, half, half};
  for (std::int64_t k = 0; k < mix.length; k += 2) {
    const __m256i weights = pair_of(mix.weights + k);
    const __m256i a = load(mix.rows[k] + at);
    const __m256i b = load(mix.rows[k + 1] + at);
    const __m256i low = _mm256_unpacklo_epi8(a, b);
    const __m256i high = _mm256_unpackhi_epi8(a, b);
    sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weights));
    sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weights));
    sum[2] = _mm256_add_epi32(sum[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weights));
    sum[3] = _mm256_add_epi32(sum[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weights));
  }
  const __m128i shift = _mm_cvtsi32_si128(mix.precision);
  for (__m256i& part : sum) part = _mm256_sra_epi32(part, shift);
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(sum[0], sum[1]), _mm256_packs_epi32(sum[2], sum[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(mix.output + at), bytes);
}

__attribute__((target("avx2"))) void mix_rows_avx2(const MixRows& mix) {
  std::int64_t at = 0;
  for (; at + 32 <= mix.bytes; at += 32) mix_32(mix, at);
  if (at < mix.bytes) mix_32(mix, mix.bytes - 32);
}

/// Mixes the pixels of a row, four at a time. The lower half of the vector has the first two of each channel, the upper
/// half the others. Every output pixel takes the same number of groups: the processor would mispredict a count that
/// varies.
template <int kGroups>
__attribute__((target("avx2"))) void mix_rgb_groups(const MixColumns& mix, std::int64_t groups) {
  const __m256i pixels = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                          6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i pairs = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                                         4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  const __m128i half = _mm_set1_epi32(1 << (mix.precision - 1));
  const __m128i shift = _mm_cvtsi32_si128(mix.precision);
  if (kGroups > 0) groups = kGroups;
  const std::int16_t* weights = mix.weights;
  for (std::int64_t x = 0; x < mix.width; ++x, weights += mix.stride) {
    const std::uint8_t* in = mix.row + 3 * mix.first[x];
    __m256i sum = _mm256_setzero_si256();
    for (std::int64_t k = 0; k < groups; ++k) {
      const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 12 * k));
      const __m256i four = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(loaded), pixels);
      const __m128i their = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights + 4 * k));
      const __m256i weight = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(their), pairs);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(four, weight));
    }
    __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    both = _mm_sra_epi32(_mm_add_epi32(both, half), shift);
    both = _mm_packs_epi32(both, both);
    both = _mm_packus_epi16(both, both);
    _mm_storeu_si32(mix.output + 3 * x, both);
  }
}

void mix_rgb_avx2(const MixColumns& mix) {
  const std::int64_t groups = (mix.longest + 3) / 4;
  if (groups == 1) return mix_rgb_groups<1>(mix, 1);
  if (groups == 2) return mix_rgb_groups<2>(mix, 2);
  mix_rgb_groups<0>(mix, groups);
}

bool has_avx2() {
  return machine::cpu_features().avx2;
}

#else

bool has_avx2() {
  return false;
}
void mix_rows_avx2(const MixRows& mix) {
  mix_rows_plain(mix);
}
void mix_rgb_avx2(const MixColumns& mix) {
  mix_columns_plain(mix);
}

#endif

}  // namespace

void mix_rows(const MixRows& mix) {
  if (mix.bytes >= 32 && has_avx2())
    mix_rows_avx2(mix);
  else
    mix_rows_plain(mix);
}

void mix_columns(const MixColumns& mix) {
  if (mix.channels == 3 && has_avx2())
    mix_rgb_avx2(mix);
  else
    mix_columns_plain(mix);
}

}  // namespace trainctl::dataset
