#include "kernels/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "kernels/philox.h"
#include "runtime/fake_tensor.h"

// The loops are compiled for several instruction sets, and optimized so that GCC vectorizes them. The loader picks one
// when the library is loaded. ThreadSanitizer crashes in that choice, since it is not initialized yet.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define TRAINCTL_CLONES __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define TRAINCTL_CLONES
#endif

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Element e of a row takes word (e % 64) / 16 of counter (e / 64) · 16 + e % 16. Vectors are thus stored in the order
// of their computation.
constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kWordsPerBlock = 4 * kLanes;
constexpr std::int64_t kPiece = 8 * kWordsPerBlock;      // words drawn at a time
constexpr std::int64_t kElementsPerChunk = 32 * kPiece;  // elements per task of a thread

/// Pattern of zeroed elements, as a function of their position.
struct Pattern {
  double probability;
  runtime::SampleRandomness::Draw draw;
  std::int64_t heads = 0;  // for attention weights: row h T + t is drawn as number t heads + h; 0: no rows

  std::uint32_t threshold() const {  // words below it zero an element
    return static_cast<std::uint32_t>(std::min(std::floor(probability * 0x1p32 + 0.5), 0x1p32 - 1));
  }
  double scale() const { return 1 / (1 - probability); }
};

/// View of a tensor [B, ...] as consecutive rows.
struct Rows {
  std::int64_t per_sample;
  std::int64_t size;
};
Rows rows_of(const at::Tensor& input, const Pattern& pattern) {
  if (pattern.heads == 0) return {.per_sample = 1, .size = input.numel() / input.size(0)};
  return {.per_sample = input.size(1) * input.size(2), .size = input.size(3)};
}
/// Returns the number of rows per head.
std::int64_t times(const Rows& rows, const Pattern& pattern) {
  return rows.per_sample / std::max<std::int64_t>(1, pattern.heads);
}

struct Place {
  std::uint64_t sample;
  std::uint32_t row;
};

/// Draws `words` [kPiece] for `count` elements from `first`, a multiple of kWordsPerBlock. It draws whole blocks.
TRAINCTL_CLONES void draw_words(std::uint64_t key, Place place, std::int64_t first, std::int64_t count,
                                std::uint32_t* words) {
  const auto counter = static_cast<std::uint32_t>(first / 4);
  for (std::int64_t block = 0; block * kWordsPerBlock < count; ++block) {
    std::uint32_t lanes[4][kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      lanes[0][lane] = counter + static_cast<std::uint32_t>(block * kLanes) + lane;
      lanes[1][lane] = place.row;
      lanes[2][lane] = static_cast<std::uint32_t>(place.sample);
      lanes[3][lane] = static_cast<std::uint32_t>(place.sample >> 32);
    }
    philox(lanes, key);
    for (std::int64_t i = 0; i < kWordsPerBlock; ++i) words[block * kWordsPerBlock + i] = lanes[i / kLanes][i % kLanes];
  }
}

TRAINCTL_CLONES void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count,
                          const float* input, float* output) {
  const auto factor = static_cast<float>(scale);
  for (std::int64_t i = 0; i < count; ++i) output[i] = input[i] * (words[i] < threshold ? 0.0F : factor);
}

TRAINCTL_CLONES void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count,
                          const double* input, double* output) {
  for (std::int64_t i = 0; i < count; ++i) output[i] = input[i] * (words[i] < threshold ? 0.0 : scale);
}

/// Drops bf16 values. bf16 is the upper half of a float; rounding is to nearest even, as in LibTorch.
TRAINCTL_CLONES void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count,
                          const std::uint16_t* input, std::uint16_t* output) {
  const auto factor = static_cast<float>(scale);
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = std::bit_cast<float>(std::uint32_t{input[i]} << 16) * (words[i] < threshold ? 0.0F : factor);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    output[i] = static_cast<std::uint16_t>(value != value ? 0x7fc0 : rounded);
  }
}
void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count,
          const at::BFloat16* input, at::BFloat16* output) {
  static_assert(sizeof(at::BFloat16) == sizeof(std::uint16_t));
  drop(words, threshold, scale, count, reinterpret_cast<const std::uint16_t*>(input),
       reinterpret_cast<std::uint16_t*>(output));
}

void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count, const at::Half* input,
          at::Half* output) {
  const auto factor = static_cast<float>(scale);
  for (std::int64_t i = 0; i < count; ++i)
    output[i] = static_cast<at::Half>(static_cast<float>(input[i]) * (words[i] < threshold ? 0.0F : factor));
}

template <class T>
void drop_rows(const at::Tensor& input, const Pattern& pattern, at::Tensor& output) {
  const Rows rows = rows_of(input, pattern);
  const std::int64_t chunks = (rows.size + kElementsPerChunk - 1) / kElementsPerChunk;  // per row
  const std::int64_t length = times(rows, pattern);
  const T* from = input.const_data_ptr<T>();
  T* to = output.mutable_data_ptr<T>();
  const std::uint32_t threshold = pattern.threshold();
  const auto drop_chunks = [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[kPiece];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / chunks;
      const std::int64_t in_sample = row % rows.per_sample;
      const Place place{.sample = static_cast<std::uint64_t>(pattern.draw.first_sample + row / rows.per_sample),
                        .row = static_cast<std::uint32_t>(in_sample % length * pattern.heads + in_sample / length)};
      const std::int64_t last = std::min((i % chunks + 1) * kElementsPerChunk, rows.size);
      for (std::int64_t first = i % chunks * kElementsPerChunk; first < last; first += kPiece) {
        const std::int64_t count = std::min(kPiece, last - first);
        draw_words(pattern.draw.key, place, first, count, words);
        const std::int64_t offset = row * rows.size + first;
        drop(words, threshold, pattern.scale(), count, from + offset, to + offset);
      }
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerChunk / std::max<std::int64_t>(1, rows.size));
  at::parallel_for(0, input.size(0) * rows.per_sample * chunks, grain, drop_chunks);
}

/// Returns the high half of products of 32-bit words in int64.
at::Tensor high_half(const at::Tensor& products) {
  return products.bitwise_right_shift(32).bitwise_and(0xffffffffLL);
}

/// Returns the words of all elements: int64 [B, rows per sample, row size].
at::Tensor words_composed(const Rows& rows, std::int64_t num_samples, const Pattern& pattern, at::Device device) {
  const auto ids = at::TensorOptions(device).dtype(at::kLong);
  const std::int64_t blocks = (rows.size + kWordsPerBlock - 1) / kWordsPerBlock;
  const std::int64_t length = times(rows, pattern);
  const at::Tensor sample = at::arange(num_samples, ids).add(pattern.draw.first_sample).view({-1, 1, 1});
  const at::Tensor in_sample = at::arange(rows.per_sample, ids);
  const at::Tensor row =
      in_sample.remainder(length).mul(pattern.heads).add(in_sample.div(length, "floor")).view({1, -1, 1});
  at::Tensor c0 = at::arange(blocks * kLanes, ids).view({1, 1, -1});
  at::Tensor c1 = row;
  at::Tensor c2 = sample.bitwise_and(0xffffffffLL);
  at::Tensor c3 = sample.bitwise_right_shift(32);
  auto key0 = static_cast<std::uint32_t>(pattern.draw.key);
  auto key1 = static_cast<std::uint32_t>(pattern.draw.key >> 32);
  for (int round = 0; round < Philox::kRounds; ++round) {
    const at::Tensor product0 = c0.mul(static_cast<std::int64_t>(Philox::kMultiplier0));
    const at::Tensor product1 = c2.mul(static_cast<std::int64_t>(Philox::kMultiplier1));
    c0 = high_half(product1).bitwise_xor(c1).bitwise_xor(static_cast<std::int64_t>(key0));
    c2 = high_half(product0).bitwise_xor(c3).bitwise_xor(static_cast<std::int64_t>(key1));
    c1 = product1.bitwise_and(0xffffffffLL);
    c3 = product0.bitwise_and(0xffffffffLL);
    key0 += Philox::kKeyStep0;
    key1 += Philox::kKeyStep1;
  }
  const std::vector<std::int64_t> shape{num_samples, rows.per_sample, blocks, kLanes};
  return at::stack({c0.expand({num_samples, rows.per_sample, -1}).reshape(shape), c1.reshape(shape),
                    c2.expand({num_samples, rows.per_sample, -1}).reshape(shape), c3.reshape(shape)},
                   3)
      .flatten(2)
      .narrow(2, 0, rows.size);
}

at::Tensor drop_composed(const at::Tensor& input, const Pattern& pattern) {
  const Rows rows = rows_of(input, pattern);
  const at::Tensor words = words_composed(rows, input.size(0), pattern, input.device());
  const at::Tensor kept = words.ge(static_cast<std::int64_t>(pattern.threshold()));
  at::Tensor output = at::empty_like(input);  // in the input's memory format, like the words
  const at::Tensor flat = input.as_strided({input.numel()}, {1}).view(kept.sizes());
  output.as_strided({input.numel()}, {1})
      .view(kept.sizes())
      .copy_(flat.mul(kept.to(input.scalar_type())).mul(pattern.scale()));
  return output;
}

/// Applies dropout to an `input` that is dense in its memory format.
at::Tensor dropped(const at::Tensor& input, const Pattern& pattern) {
  if (input.numel() == 0) return at::empty_like(input);
  const at::ScalarType dtype = input.scalar_type();
  const bool is_ours = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 || dtype == at::kHalf;
  if (!input.device().is_cpu() || !is_ours) return drop_composed(input, pattern);
  at::Tensor output = at::empty_like(input);
  if (runtime::is_fake(input)) return output;
  if (dtype == at::kFloat) drop_rows<float>(input, pattern, output);
  if (dtype == at::kDouble) drop_rows<double>(input, pattern, output);
  if (dtype == at::kBFloat16) drop_rows<at::BFloat16>(input, pattern, output);
  if (dtype == at::kHalf) drop_rows<at::Half>(input, pattern, output);
  return output;
}

struct DropoutFunction final : torch::autograd::Function<DropoutFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const Pattern& pattern,
                            at::MemoryFormat format) {
    RECORD_FUNCTION("trainctl::dropout", std::vector<c10::IValue>({input}));
    context->saved_data["probability"] = pattern.probability;
    context->saved_data["key"] = static_cast<std::int64_t>(pattern.draw.key);
    context->saved_data["first_sample"] = pattern.draw.first_sample;
    context->saved_data["heads"] = pattern.heads;
    context->saved_data["format"] = static_cast<std::int64_t>(format);
    return dropped(input.contiguous(format), pattern);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const Pattern pattern{.probability = context->saved_data["probability"].toDouble(),
                          .draw = {.key = static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
                                   .first_sample = context->saved_data["first_sample"].toInt()},
                          .heads = context->saved_data["heads"].toInt()};
    // Positions count in the input's memory format.
    const auto format = static_cast<at::MemoryFormat>(context->saved_data["format"].toInt());
    return {DropoutFunction::apply(output_gradients[0], pattern, format), at::Tensor(), at::Tensor()};
  }
};

runtime::SampleRandomness::Draw draw_anyhow() {
  if (const auto draw = runtime::SampleRandomness::next_draw()) return *draw;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return {.key = at::check_generator<at::CPUGeneratorImpl>(generator)->random64()};
}

}  // namespace

at::Tensor dropout(const at::Tensor& input, double probability) {
  core::ensure(probability >= 0 && probability < 1 && input.dim() > 0,
               "dropout takes [B, ...] and a probability in [0, 1)");
  const runtime::SampleRandomness::Draw draw = draw_anyhow();
  return DropoutFunction::apply(input, Pattern{.probability = probability, .draw = draw},
                                input.suggest_memory_format());
}

at::Tensor dropout_attention(const at::Tensor& weights, double probability) {
  core::ensure(probability >= 0 && probability < 1 && weights.dim() == 4, "dropout_attention takes [B, H, T, S]");
  const Pattern pattern{.probability = probability, .draw = draw_anyhow(), .heads = weights.size(1)};
  return DropoutFunction::apply(weights, pattern, at::MemoryFormat::Contiguous);
}

at::Tensor dropout_composed(const at::Tensor& input, double probability, const runtime::SampleRandomness::Draw& draw) {
  return drop_composed(input.contiguous(input.suggest_memory_format()), {.probability = probability, .draw = draw});
}

}  // namespace trainctl::kernels
