#include "quantization/workarounds/int8_gemm.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"
#include "machine/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trainctl::quantization {
namespace {

constexpr std::int64_t kPanel = 16;         // outputs: two registers of sums
constexpr std::int64_t kGroup = 4;          // adjacent inputs of one output
constexpr std::int64_t kRows = 3;           // rows per tile: with four, the sums exceed 16 registers
constexpr std::int64_t kChunk = 128;        // rows whose levels stay in cache during a pass over the weights
constexpr std::int64_t kGrain = 1 << 17;    // least number of products per thread
constexpr std::int64_t kRounded = 1 << 15;  // least number of values per thread when rounding to levels
constexpr std::int64_t kMaxSum = 32767 / Int8Matrix::kMaxLevel;

/// Weights of 16 outputs.
struct Panel {
  const std::int8_t* weights;  // [in / 4, 16, 4]
  std::int64_t in;
  const std::vector<Int8Matrix::Apart>& apart;
};

/// Rows of quantized inputs.
struct Levels {
  const std::uint8_t* data;
  const std::vector<Int8Matrix::Beyond>* beyond;  // by row
};

/// Factors that turn a panel's sums into results.
struct Finish {
  std::array<std::int32_t, kPanel> zeros{};  // contribution of the input's zero point
  std::array<float, kPanel> factors{};
  std::array<float, kPanel> bias{};
};

/// Results [rows, out], from the panel's first output on.
struct Results {
  float* data;
  std::int64_t out;
  std::int64_t num_outputs;  // outputs in the panel
};

/// Limits four weights whose products are added in 16 bits. It calls `take(place)` for the largest one until no input
/// can make the sum overflow.
template <class Take>
void keep_in_sixteen_bits(const std::array<std::int8_t*, 4>& weights, Take take) {
  for (const int sign : {1, -1}) {
    while (true) {
      int sum = 0;
      std::size_t largest = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        sum += std::max(sign * *weights[i], 0);
        if (sign * *weights[i] > sign * *weights[largest]) largest = i;
      }
      if (sum <= kMaxSum) break;
      take(largest);
    }
  }
}

#if defined(__x86_64__)
#define TRAINCTL_AVX2 __attribute__((target("avx2"), always_inline)) inline

TRAINCTL_AVX2 __m256i load_bytes(const std::int8_t* place) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place));
}

TRAINCTL_AVX2 __m256i repeat_group(const std::uint8_t* place) {
  std::int32_t bytes = 0;
  __builtin_memcpy(&bytes, place, sizeof bytes);
  return _mm256_set1_epi32(bytes);
}

TRAINCTL_AVX2 void add_wide(__m256i& sum, __m256i sixteen_bits) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(sixteen_bits, _mm256_set1_epi16(1)));
}

/// Adds the input levels above kMaxLevel, times the weights of those inputs, including the weights kept apart.
TRAINCTL_AVX2 void add_beyond(const Int8Matrix::Beyond& beyond, const Panel& panel, __m256i (&sums)[2]) {
  const __m256i levels = repeat_group(beyond.levels.data());
  const auto add = [&](const std::int8_t* weights) __attribute__((target("avx2"), always_inline)) {
    add_wide(sums[0], _mm256_maddubs_epi16(levels, load_bytes(weights)));
    add_wide(sums[1], _mm256_maddubs_epi16(levels, load_bytes(weights + 32)));
  };
  add(panel.weights + beyond.first_input * kPanel);
  for (const Int8Matrix::Apart& apart : panel.apart)
    if (apart.first_input == beyond.first_input) add(apart.weights.data());
}

/// Multiplies kTileRows rows by 16 outputs, with the sums in registers.
template <int kTileRows>
TRAINCTL_AVX2 void add_products(const std::uint8_t* input, const Panel& panel, __m256i (&sums)[kTileRows][2]) {
  constexpr std::int64_t kStep = kPanel * kGroup;
  const std::int8_t* weights = panel.weights;
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < panel.in; k += 2 * kGroup, weights += 2 * kStep) {
    const __m256i first[] = {load_bytes(weights), load_bytes(weights + 32)};
    const __m256i second[] = {load_bytes(weights + kStep), load_bytes(weights + kStep + 32)};
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const __m256i a = repeat_group(input + r * panel.in + k);
      const __m256i b = repeat_group(input + r * panel.in + k + kGroup);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half)
        add_wide(sums[r][half],
                 _mm256_add_epi16(_mm256_maddubs_epi16(a, first[half]), _mm256_maddubs_epi16(b, second[half])));
    }
  }
  for (const Int8Matrix::Apart& apart : panel.apart) {
    const __m256i one[] = {load_bytes(apart.weights.data()), load_bytes(apart.weights.data() + 32)};
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const __m256i a = repeat_group(input + r * panel.in + apart.first_input);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) add_wide(sums[r][half], _mm256_maddubs_epi16(a, one[half]));
    }
  }
}

template <int kTileRows>
TRAINCTL_AVX2 void multiply_tile(const Levels& input, const Panel& panel, const Finish& finish, Results results) {
  __m256i sums[kTileRows][2] = {};
  add_products<kTileRows>(input.data, panel, sums);
#pragma GCC unroll 4
  for (int r = 0; r < kTileRows; ++r) {
    for (const Int8Matrix::Beyond& beyond : input.beyond[r]) add_beyond(beyond, panel, sums[r]);
    std::array<float, kPanel> part;
    const bool is_whole = results.num_outputs == kPanel;
    float* row = results.data + r * results.out;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const std::int64_t lane = 8 * half;
      const __m256i zeros = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(finish.zeros.data() + lane));
      const __m256 sum = _mm256_cvtepi32_ps(_mm256_sub_epi32(sums[r][half], zeros));
      const __m256 value = _mm256_add_ps(_mm256_mul_ps(sum, _mm256_loadu_ps(finish.factors.data() + lane)),
                                         _mm256_loadu_ps(finish.bias.data() + lane));
      _mm256_storeu_ps(is_whole ? row + lane : part.data() + lane, value);
    }
    if (!is_whole) std::copy_n(part.data(), results.num_outputs, row);
  }
}

__attribute__((target("avx2"))) void multiply_rows(Levels input, std::int64_t num_rows, const Panel& panel,
                                                   const Finish& finish, Results results) {
  const auto tile = [&]<int kTileRows>() __attribute__((target("avx2"))) {
    multiply_tile<kTileRows>(input, panel, finish, results);
    input.data += kTileRows * panel.in;
    input.beyond += kTileRows;
    results.data += kTileRows * results.out;
    num_rows -= kTileRows;
  };
  // Split four rows in two and two: a single row takes nearly as long as three.
  while (num_rows >= kRows && num_rows != kRows + 1) tile.template operator()<kRows>();
  while (num_rows >= 2) tile.template operator()<2>();
  if (num_rows > 0) tile.template operator()<1>();
}

/// Records how far eight levels exceed kMaxLevel.
void note_beyond(const std::array<std::int32_t, 8>& levels, std::int64_t first_input,
                 std::vector<Int8Matrix::Beyond>& beyond) {
  for (std::int64_t group = 0; group < 8; group += kGroup) {
    Int8Matrix::Beyond some{.first_input = first_input + group, .levels = {}};
    bool has_some = false;
    for (std::int64_t i = 0; i < kGroup; ++i) {
      const std::int64_t above = levels[static_cast<std::size_t>(group + i)] - Int8Matrix::kMaxLevel;
      some.levels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::max<std::int64_t>(above, 0));
      has_some = has_some || above > 0;
    }
    if (has_some) beyond.push_back(some);
  }
}

/// Quantizes a row as LibTorch does: multiplies by the reciprocal and rounds half to even.
__attribute__((target("avx2"))) void round_to_levels(const float* input, std::int64_t size,
                                                     const Int8Matrix::InputLevels& levels, std::uint8_t* output,
                                                     std::vector<Int8Matrix::Beyond>& beyond) {
  const __m256 factor = _mm256_set1_ps(1.0F / static_cast<float>(levels.scale));
  const __m256i zero_point = _mm256_set1_epi32(static_cast<int>(levels.zero_point));
  const __m256i most = _mm256_set1_epi32(Int8Matrix::kMaxLevel);
  const __m256i last = _mm256_set1_epi32(255);
  const __m256 bound = _mm256_set1_ps(1e6F);  // larger values overflow the conversion to integers
  for (std::int64_t i = 0; i < size; i += Int8Matrix::kInputs) {
    __m256 value = _mm256_mul_ps(_mm256_loadu_ps(input + i), factor);
    value = _mm256_max_ps(_mm256_min_ps(value, bound), _mm256_sub_ps(_mm256_setzero_ps(), bound));
    __m256i level = _mm256_add_epi32(_mm256_cvtps_epi32(value), zero_point);
    level = _mm256_max_epi32(_mm256_min_epi32(level, last), _mm256_setzero_si256());
    if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(level, most)) != 0) {
      std::array<std::int32_t, 8> each;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(each.data()), level);
      note_beyond(each, i, beyond);
      level = _mm256_min_epi32(level, most);
    }
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(level), _mm256_extracti128_si256(level, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(output + i), _mm_packus_epi16(words, words));
  }
}
#else
void multiply_rows(const Levels&, std::int64_t, const Panel&, const Finish&, Results) {
  ensure(false, "Int8Matrix::is_supported()");
}
void round_to_levels(const float*, std::int64_t, const Int8Matrix::InputLevels&, std::uint8_t*,
                     std::vector<Int8Matrix::Beyond>&) {
  ensure(false, "Int8Matrix::is_supported()");
}
#endif

}  // namespace

bool Int8Matrix::is_supported() {
#if defined(__x86_64__)
  return machine::cpu_features().avx2;
#else
  return false;
#endif
}

bool Int8Matrix::pays() {
  return is_supported() && at::get_cpu_capability() == "AVX2";
}

Int8Matrix::Int8Matrix(const at::Tensor& weights) : in_(weights.size(1)), out_(weights.size(0)) {
  core::ensure(weights.scalar_type() == at::kChar && in_ % kInputs == 0, "bytes, in groups");
  const std::int64_t num_panels = (out_ + kPanel - 1) / kPanel;
  const std::int64_t num_groups = in_ / kGroup;
  packed_ = at::zeros({num_panels, num_groups, kPanel, kGroup}, at::kChar);
  sums_.resize(static_cast<std::size_t>(out_));
  apart_.resize(static_cast<std::size_t>(num_panels));
  const at::Tensor rows = weights.contiguous();
  const auto* from = rows.const_data_ptr<std::int8_t>();
  auto* const to = packed_.mutable_data_ptr<std::int8_t>();
  const auto place = [&](std::int64_t output, std::int64_t group) {
    return to + ((output / kPanel * num_groups + group) * kPanel + output % kPanel) * kGroup;
  };
  for (std::int64_t output = 0; output < out_; ++output, from += in_) {
    sums_[static_cast<std::size_t>(output)] = std::accumulate(from, from + in_, 0);
    for (std::int64_t group = 0; group < num_groups; ++group)
      std::copy_n(from + group * kGroup, kGroup, place(output, group));
  }
  for (std::int64_t panel = 0; panel < num_panels; ++panel)
    for (std::int64_t group = 0; group < num_groups; group += 2) keep_apart(panel, group, place(panel * kPanel, group));
}

/// Removes the weights that can overflow a 16-bit sum from the two groups at `group` ([2, 16, 4]) and keeps them apart.
void Int8Matrix::keep_apart(std::int64_t panel, std::int64_t group, std::int8_t* weights) {
  std::array<Apart, 2> apart{};
  std::array<bool, 2> has_some{};
  for (std::int64_t pair = 0; pair < kPanel * kGroup; pair += 2) {
    std::int8_t* const first = weights + pair;
    std::int8_t* const second = first + kPanel * kGroup;
    keep_in_sixteen_bits({first, first + 1, second, second + 1}, [&](std::size_t i) {
      std::int8_t* const row = i < 2 ? first : second;  // in one expression GCC 12's UBSan takes the wrong row
      std::int8_t& weight = row[i % 2];
      apart[i / 2].weights[static_cast<std::size_t>(pair) + i % 2] = weight;
      has_some[i / 2] = true;
      weight = 0;
      ++num_apart_;
    });
  }
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (!has_some[i]) continue;
    apart[i].first_input = (group + static_cast<std::int64_t>(i)) * kGroup;
    apart_[static_cast<std::size_t>(panel)].push_back(apart[i]);
  }
}

/// Product of some input rows with all outputs.
struct Int8Matrix::Product {
  const std::uint8_t* input;
  const std::vector<Beyond>* beyond;  // by row
  std::int64_t num_rows;
  InputLevels levels;
  const float* scales;
  const float* bias;  // null: no bias
  float* output;
};

void Int8Matrix::multiply_panel(std::int64_t panel, const Product& product) const {
  const std::int64_t first = panel * kPanel;
  const std::int64_t num_outputs = std::min(kPanel, out_ - first);
  Finish finish;
  for (std::int64_t lane = 0; lane < num_outputs; ++lane) {
    const auto at = static_cast<std::size_t>(lane);
    const std::int32_t sum = sums_[static_cast<std::size_t>(first + lane)];
    finish.zeros[at] = static_cast<std::int32_t>(product.levels.zero_point) * sum;
    finish.factors[at] = static_cast<float>(product.levels.scale) * product.scales[first + lane];
    finish.bias[at] = product.bias == nullptr ? 0 : product.bias[first + lane];
  }
  const auto* weights = packed_.const_data_ptr<std::int8_t>() + first * in_;
  multiply_rows({product.input, product.beyond}, product.num_rows,
                {weights, in_, apart_[static_cast<std::size_t>(panel)]}, finish,
                {.data = product.output + first, .out = out_, .num_outputs = num_outputs});
}

std::vector<at::Tensor> Int8Matrix::multiply(const at::Tensor& input, const InputLevels& levels,
                                             const std::vector<Factor>& factors) {
  RECORD_FUNCTION("trainctl::byte_product", std::vector<c10::IValue>());
  const std::int64_t in = input.size(-1);
  const at::Tensor dense = input.contiguous();
  const auto* x = dense.const_data_ptr<float>();
  at::Tensor rounded = at::empty(dense.sizes(), at::kByte);
  auto* const a = rounded.mutable_data_ptr<std::uint8_t>();
  const std::int64_t num_rows = dense.numel() / in;
  std::vector<std::vector<Beyond>> beyond(static_cast<std::size_t>(num_rows));
  std::vector<at::Tensor> outputs;
  std::vector<Product> products;
  std::int64_t num_panels = 0;
  for (const Factor& factor : factors) {
    core::ensure(factor.matrix.in_ == in, "a row of inputs each");
    std::vector<std::int64_t> shape = dense.sizes().vec();
    shape.back() = factor.matrix.out_;
    outputs.push_back(at::empty(shape, at::kFloat));
    products.push_back({.input = a,
                        .beyond = beyond.data(),
                        .num_rows = num_rows,
                        .levels = levels,
                        .scales = factor.scales.const_data_ptr<float>(),
                        .bias = factor.bias.defined() ? factor.bias.const_data_ptr<float>() : nullptr,
                        .output = outputs.back().mutable_data_ptr<float>()});
    num_panels += factor.matrix.packed_.size(0);
  }
  at::parallel_for(0, num_rows, kRounded / in + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      round_to_levels(x + row * in, in, levels, a + row * in, beyond[static_cast<std::size_t>(row)]);
  });
  const std::int64_t num_chunks = (num_rows + kChunk - 1) / kChunk;
  const std::int64_t grain = kGrain / (std::min(num_rows, kChunk) * in * kPanel + 1) + 1;
  at::parallel_for(0, num_chunks * num_panels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / num_panels * kChunk;
      std::int64_t panel = i % num_panels;
      std::size_t which = 0;
      for (; panel >= factors[which].matrix.packed_.size(0); ++which) panel -= factors[which].matrix.packed_.size(0);
      Product product = products[which];
      product.input += row * in;
      product.beyond += row;
      product.num_rows = std::min(kChunk, num_rows - row);
      product.output += row * factors[which].matrix.out_;
      factors[which].matrix.multiply_panel(panel, product);
    }
  });
  return outputs;
}

}  // namespace trainctl::quantization
