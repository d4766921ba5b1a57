#include "kernels/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "kernels/cuda_grid.h"
#include "kernels/device/operators.h"
#include "kernels/device/philox.h"
#include "kernels/drop_words.h"
#include "runtime/fake_tensor.h"

// The loop for doubles is compiled for several instruction sets, and optimized so that GCC vectorizes it. The loader
// picks one when the library is loaded. ThreadSanitizer crashes in that choice, since it is not initialized yet.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define TRAINCTL_CLONES __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define TRAINCTL_CLONES
#endif

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kPiece = 8 * device::kWordsPerBlock;  // words drawn at a time
constexpr std::int64_t kElementsPerChunk = 32 * kPiece;      // elements per task of a thread

/// Pattern of zeroed elements, as a function of their position.
struct Pattern {
  double probability;
  runtime::SampleRandomness::Draw draw;
  std::int64_t heads = 0;  // of attention weights; see device::DropRows
  std::int64_t first_head = 0;
  std::int64_t all_heads = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  runtime::ElementRuns runs{};  // for others: a row is a run

  double scale() const { return 1 / (1 - probability); }
};

/// Views a tensor [B, ...] as consecutive rows.
device::DropRows rows_of(const at::Tensor& input, const Pattern& pattern) {
  device::DropRows rows{.key = pattern.draw.key,
                        .first_sample = pattern.draw.first_sample,
                        .threshold = drop_threshold(pattern.probability),
                        .heads = pattern.heads,
                        .first_head = pattern.first_head,
                        .all_heads = pattern.all_heads,
                        .first_query = pattern.first_query,
                        .first_key = pattern.first_key,
                        .run_distance = pattern.runs.distance,
                        .first_run = pattern.runs.first};
  if (pattern.heads > 0) rows.per_sample = input.size(1) * input.size(2);
  if (pattern.runs.length > 0) rows.per_sample = input.numel() / input.size(0) / pattern.runs.length;
  rows.count = input.size(0) * rows.per_sample;
  rows.size = input.numel() / rows.count;
  return rows;
}

struct DropElements {
  template <class V, class T>
  TRAINCTL_INLINE static void run(const std::uint32_t* words, std::uint32_t threshold, float kept, std::int64_t count,
                                  const T* input, T* output) {
    std::int64_t i = 0;
    for (; i + V::kLanes <= count; i += V::kLanes)
      step<V>(words + i, threshold, kept, V::kLanes, input + i, output + i);
    if (i < count) step<V>(words + i, threshold, kept, count - i, input + i, output + i);
  }

 private:
  template <class V, class T>
  TRAINCTL_INLINE static void step(const std::uint32_t* words, std::uint32_t threshold, float kept, std::int64_t count,
                                   const T* input, T* output) {
    typename V::Floats x;
    typename V::Floats factors;
    load_some(input, count, x);
    drop_factors<V>(words, threshold, kept, factors);
    x *= factors;
    store_some(x, count, output);
  }
};

/// Drops floats or bf16. `words` has kMaxLanes more than it needs.
template <class T>
void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count, const T* input,
          T* output) {
  vectorized<DropElements>(words, threshold, static_cast<float>(scale), count, input, output);
}

TRAINCTL_CLONES void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count,
                          const double* input, double* output) {
  for (std::int64_t i = 0; i < count; ++i) output[i] = input[i] * (words[i] < threshold ? 0.0 : scale);
}

void drop(const std::uint32_t* words, std::uint32_t threshold, double scale, std::int64_t count, const at::Half* input,
          at::Half* output) {
  const auto factor = static_cast<float>(scale);
  for (std::int64_t i = 0; i < count; ++i)
    output[i] = static_cast<at::Half>(static_cast<float>(input[i]) * (words[i] < threshold ? 0.0F : factor));
}

template <class T>
void drop_rows(const at::Tensor& input, const Pattern& pattern, at::Tensor& output) {
  const device::DropRows rows = rows_of(input, pattern);
  const std::int64_t chunks = (rows.size + kElementsPerChunk - 1) / kElementsPerChunk;  // per row
  const T* from = input.const_data_ptr<T>();
  T* to = output.mutable_data_ptr<T>();
  const auto drop_chunks = [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[kPiece + kMaxLanes] = {};
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / chunks;
      const auto place = rows.place(row);
      const std::int64_t last = std::min((i % chunks + 1) * kElementsPerChunk, rows.size);
      for (std::int64_t first = i % chunks * kElementsPerChunk; first < last;) {
        const std::int64_t skipped = (place.element + first) % device::kWordsPerBlock;
        const std::int64_t count = std::min(kPiece - skipped, last - first);
        draw_words(rows.key, {place.sample, place.row}, place.element + first - skipped, skipped + count, words);
        const std::int64_t offset = row * rows.size + first;
        drop(words + skipped, rows.threshold, pattern.scale(), count, from + offset, to + offset);
        first += count;
      }
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerChunk / std::max<std::int64_t>(1, rows.size));
  at::parallel_for(0, rows.count * chunks, grain, drop_chunks);
}

/// Returns the high half of products of 32-bit words in int64.
at::Tensor high_half(const at::Tensor& products) {
  return products.bitwise_right_shift(32).bitwise_and(0xffffffffLL);
}

/// Returns the rows' numbers, and their first elements, within each sample: int64 [1, rows per sample, 1].
struct RowPlaces {
  at::Tensor row;
  at::Tensor element;
};
RowPlaces places_composed(const device::DropRows& rows, const at::TensorOptions& ids) {
  const at::Tensor in_sample = at::arange(rows.per_sample, ids).view({1, -1, 1});
  if (rows.heads == 0)
    return {.row = at::zeros_like(in_sample), .element = in_sample.mul(rows.run_distance).add(rows.first_run)};
  const std::int64_t length = rows.per_sample / rows.heads;
  return {.row = in_sample.remainder(length)
                     .add(rows.first_query)
                     .mul(rows.all_heads)
                     .add(in_sample.div(length, "floor"))
                     .add(rows.first_head),
          .element = at::full_like(in_sample, rows.first_key)};
}

/// Returns the words of all elements: int64 [B, rows per sample, row size].
at::Tensor words_composed(const device::DropRows& rows, at::Device device) {
  const auto ids = at::TensorOptions(device).dtype(at::kLong);
  const std::int64_t num_samples = rows.count / rows.per_sample;
  const at::Tensor sample = at::arange(num_samples, ids).add(rows.first_sample).view({-1, 1, 1});
  const RowPlaces places = places_composed(rows, ids);
  at::Tensor c0 = at::arange(rows.blocks() * device::kCountersPerBlock, ids).view({1, 1, -1});
  if (!rows.are_aligned())
    c0 = c0.add(places.element.div(device::kWordsPerBlock, "floor").mul(device::kCountersPerBlock));
  at::Tensor c1 = places.row;
  at::Tensor c2 = sample.bitwise_and(0xffffffffLL);
  at::Tensor c3 = sample.bitwise_right_shift(32);
  auto key0 = static_cast<std::uint32_t>(rows.key);
  auto key1 = static_cast<std::uint32_t>(rows.key >> 32);
  for (int round = 0; round < device::Philox::kRounds; ++round) {
    const at::Tensor product0 = c0.mul(static_cast<std::int64_t>(device::Philox::kMultiplier0));
    const at::Tensor product1 = c2.mul(static_cast<std::int64_t>(device::Philox::kMultiplier1));
    c0 = high_half(product1).bitwise_xor(c1).bitwise_xor(static_cast<std::int64_t>(key0));
    c2 = high_half(product0).bitwise_xor(c3).bitwise_xor(static_cast<std::int64_t>(key1));
    c1 = product1.bitwise_and(0xffffffffLL);
    c3 = product0.bitwise_and(0xffffffffLL);
    key0 += device::Philox::kKeyStep0;
    key1 += device::Philox::kKeyStep1;
  }
  const std::vector<std::int64_t> shape{num_samples, rows.per_sample, rows.blocks(), device::kCountersPerBlock};
  const at::Tensor words = at::stack({c0.expand({num_samples, rows.per_sample, -1}).reshape(shape), c1.reshape(shape),
                                      c2.expand({num_samples, rows.per_sample, -1}).reshape(shape), c3.reshape(shape)},
                                     3)
                               .flatten(2);
  if (rows.are_aligned()) return words.narrow(2, 0, rows.size);
  const at::Tensor wanted = places.element.remainder(device::kWordsPerBlock).add(at::arange(rows.size, ids));
  return words.gather(2, wanted.expand({num_samples, -1, -1}));
}

at::Tensor drop_composed(const at::Tensor& input, const Pattern& pattern) {
  const device::DropRows rows = rows_of(input, pattern);
  const at::Tensor words = words_composed(rows, input.device());
  const at::Tensor kept = words.ge(static_cast<std::int64_t>(rows.threshold));
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
  const bool is_on_gpu = input.is_cuda() && device::has_kernels_for(input);
  if (!is_on_gpu && (!input.is_cpu() || !is_ours)) return drop_composed(input, pattern);
  if (runtime::is_fake(input)) return at::empty_like(input);
  if (is_on_gpu) {
    const c10::DeviceGuard guard(input.device());
    return device::dropout(cuda_grid(), input, rows_of(input, pattern), pattern.scale());
  }
  at::Tensor output = at::empty_like(input);
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
    context->saved_data["heads"] = std::vector<std::int64_t>{pattern.heads, pattern.first_head, pattern.all_heads};
    context->saved_data["runs"] =
        std::vector<std::int64_t>{pattern.runs.length, pattern.runs.distance, pattern.runs.first};
    context->saved_data["format"] = static_cast<std::int64_t>(format);
    return dropped(input.contiguous(format), pattern);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const std::vector<std::int64_t> heads = context->saved_data["heads"].toIntVector();
    const std::vector<std::int64_t> runs = context->saved_data["runs"].toIntVector();
    const Pattern pattern{.probability = context->saved_data["probability"].toDouble(),
                          .draw = {.key = static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
                                   .first_sample = context->saved_data["first_sample"].toInt()},
                          .heads = heads[0],
                          .first_head = heads[1],
                          .all_heads = heads[2],
                          .runs = {.length = runs[0], .distance = runs[1], .first = runs[2]}};
    // Positions count in the input's memory format.
    const auto format = static_cast<at::MemoryFormat>(context->saved_data["format"].toInt());
    return {DropoutFunction::apply(output_gradients[0], pattern, format), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

runtime::SampleRandomness::Draw next_draw() {
  if (const auto draw = runtime::SampleRandomness::next_draw()) return *draw;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return {.key = at::check_generator<at::CPUGeneratorImpl>(generator)->random64()};
}

at::Tensor dropout(const at::Tensor& input, double probability) {
  return dropout(input, probability, runtime::ElementRuns{});  // at::dropout would take {} as false
}

at::Tensor dropout(const at::Tensor& input, double probability, const runtime::ElementRuns& runs) {
  core::ensure(probability >= 0 && probability < 1 && input.dim() > 0,
               "dropout takes [B, ...] and a probability in [0, 1)");
  return DropoutFunction::apply(input, Pattern{.probability = probability, .draw = next_draw(), .runs = runs},
                                runs.length == 0 ? input.suggest_memory_format() : at::MemoryFormat::Contiguous);
}

at::Tensor dropout_attention(const at::Tensor& weights, double probability, const HeadRange& heads) {
  core::ensure(probability >= 0 && probability < 1 && weights.dim() == 4, "dropout_attention takes [B, H, T, S]");
  const Pattern pattern{.probability = probability,
                        .draw = next_draw(),
                        .heads = weights.size(1),
                        .first_head = heads.first,
                        .all_heads = heads.of == 0 ? weights.size(1) : heads.of};
  return DropoutFunction::apply(weights, pattern, at::MemoryFormat::Contiguous);
}

at::Tensor drop_weights(const at::Tensor& weights, double probability, const runtime::SampleRandomness::Draw& draw,
                        const WeightPlace& place) {
  return dropped(weights.contiguous(), {.probability = probability,
                                        .draw = draw,
                                        .heads = weights.size(1),
                                        .first_head = place.heads.first,
                                        .all_heads = place.heads.of == 0 ? weights.size(1) : place.heads.of,
                                        .first_query = place.first_query,
                                        .first_key = place.first_key});
}

at::Tensor dropout_composed(const at::Tensor& input, double probability, const runtime::SampleRandomness::Draw& draw,
                            const runtime::ElementRuns& runs) {
  const at::MemoryFormat format = runs.length == 0 ? input.suggest_memory_format() : at::MemoryFormat::Contiguous;
  return drop_composed(input.contiguous(format), {.probability = probability, .draw = draw, .runs = runs});
}

}  // namespace trainctl::kernels
