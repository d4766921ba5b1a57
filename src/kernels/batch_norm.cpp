#include "kernels/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/error.h"
#include "kernels/portable.h"
#include "kernels/vector_math.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kRowSlices = 64;   // a fixed number makes sums independent of the number of threads
constexpr std::int64_t kRowsAtOnce = 32;  // that lie in the first cache, and whose sums are floats

/// Pixels or samples, each with its channels side by side.
struct PixelRows {
  std::int64_t count;
  std::int64_t channels;
};
PixelRows pixel_rows(const at::Tensor& input) {
  return {.count = input.numel() / input.size(1), .channels = input.size(1)};
}

/// The statistics of some rows, pooled pairwise: https://doi.org/10.1080/00031305.1983.10483115 (Chan, Golub, LeVeque).
struct Moments {
  double* mean;     // [C]
  double* squares;  // [C], sum of squared differences from `mean`
};
TRAINCTL_INLINE void pool(const Moments& into, double count, double other_count, double mean, double squares,
                          std::int64_t channel) {
  const double difference = mean - into.mean[channel], share = other_count / (count + other_count);
  into.mean[channel] += difference * share;
  into.squares[channel] += squares + difference * difference * count * share;
}

/// Pools `count` rows into zeroed moments. `sums` [3 C] is memory to work in. It holds, for each channel, a number near
/// the mean of some rows, and the sums of the differences from it and of their squares.
struct RowMoments {
  template <class V>
  TRAINCTL_INLINE static void run(const float* rows, std::int64_t count, std::int64_t channels, const Moments* moments,
                                  float* sums) {
    using Floats = typename V::Floats;
    for (std::int64_t first = 0; first < count; first += kRowsAtOnce, rows += kRowsAtOnce * channels) {
      const std::int64_t some = std::min(kRowsAtOnce, count - first);
      const float share = 1.0F / static_cast<float>(some);
      for (std::int64_t c = 0; c < channels; c += V::kLanes) {
        Floats sum{}, differences{}, squares{}, x;
        for (std::int64_t r = 0; r < some; ++r) load(rows + r * channels + c, x), sum += x;
        const Floats middle = sum * share;
        for (std::int64_t r = 0; r < some; ++r) {
          load(rows + r * channels + c, x);
          const Floats d = x - middle;
          differences += d;
          squares += d * d;
        }
        store(middle, sums + c), store(differences, sums + channels + c), store(squares, sums + 2 * channels + c);
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto rest = static_cast<double>(sums[channels + c]), rows_here = static_cast<double>(some);
        pool(*moments, static_cast<double>(first), rows_here, static_cast<double>(sums[c]) + rest / rows_here,
             static_cast<double>(sums[2 * channels + c]) - rest * rest / rows_here, c);
      }
    }
  }
};

/// Per channel, [C] each.
struct NormTerms {
  const float* mean;
  const float* scale;  // weight / standard deviation
  const float* bias;
};
template <class F>
TRAINCTL_INLINE void normalized(const NormTerms& terms, std::int64_t c, F& x) {
  F mean, scale, bias;
  load(terms.mean + c, mean), load(terms.scale + c, scale), load(terms.bias + c, bias);
  x = (x - mean) * scale + bias;
}

/// `added` may be null.
struct NormalizeRows {
  template <class V>
  TRAINCTL_INLINE static void run(const float* input, const float* added, const NormTerms* terms, PixelRows range,
                                  bool relu, float* output) {
    using Floats = typename V::Floats;
    const std::int64_t size = range.count * range.channels;
    for (std::int64_t row = 0; row < size; row += range.channels)
      for (std::int64_t c = 0; c < range.channels; c += V::kLanes) {
        Floats x, other;
        load(input + row + c, x);
        normalized(*terms, c, x);
        if (added != nullptr) load(added + row + c, other), x += other;
        if (relu) x = x < 0.0F ? Floats{} : x;  // keeps what is not a number
        store(x, output + row + c);
      }
  }
};

/// How ReLU's gradient is masked: not at all, by the output computed again, or by the output.
enum class Mask { none, computed, saved };

struct BackwardRows {
  const float* input;
  const float* gradient;
  const float* output;  // with Mask::saved
  NormTerms terms;
  PixelRows range;
};
template <Mask kMask, class F>
TRAINCTL_INLINE void masked_gradient(const BackwardRows& in, std::int64_t row, std::int64_t c, const F& x, F& g) {
  load(in.gradient + row + c, g);
  if constexpr (kMask == Mask::computed) {
    F y = x;
    normalized(in.terms, c, y);
    g = y <= 0.0F ? F{} : g;
  } else if constexpr (kMask == Mask::saved) {
    F y;
    load(in.output + row + c, y);
    g = y <= 0.0F ? F{} : g;
  }
}

/// Adds Σ g to `totals` [C] and Σ g (x - mean) to the C behind them. With Mask::saved, writes g to `masked`. `sums`
/// [2 C] is memory to work in.
template <Mask kMask>
struct GradientSums {
  template <class V>
  TRAINCTL_INLINE static void run(const BackwardRows* in, double* totals, float* sums, float* masked) {
    using Floats = typename V::Floats;
    const std::int64_t channels = in->range.channels;
    for (std::int64_t first = 0; first < in->range.count; first += kRowsAtOnce) {
      const std::int64_t last = std::min(first + kRowsAtOnce, in->range.count);
      for (std::int64_t c = 0; c < channels; c += V::kLanes) {
        Floats sum{}, product{}, mean;
        load(in->terms.mean + c, mean);
        for (std::int64_t row = first * channels; row < last * channels; row += channels) {
          Floats x, g;
          load(in->input + row + c, x);
          masked_gradient<kMask>(*in, row, c, x, g);
          if constexpr (kMask == Mask::saved) store(g, masked + row + c);
          sum += g;
          product += g * (x - mean);
        }
        store(sum, sums + c), store(product, sums + channels + c);
      }
      for (std::int64_t c = 0; c < 2 * channels; ++c) totals[c] += static_cast<double>(sums[c]);
    }
  }
};

/// dx = scale g - offset - slope (x - mean); [C] each.
struct GradientTerms {
  const float* offset;
  const float* slope;
};
template <Mask kMask>
struct InputGradient {
  template <class V>
  TRAINCTL_INLINE static void run(const BackwardRows* in, const GradientTerms* terms, float* result) {
    using Floats = typename V::Floats;
    const std::int64_t size = in->range.count * in->range.channels;
    for (std::int64_t row = 0; row < size; row += in->range.channels)
      for (std::int64_t c = 0; c < in->range.channels; c += V::kLanes) {
        Floats x, g, mean, scale, offset, slope;
        load(in->input + row + c, x);
        masked_gradient<kMask>(*in, row, c, x, g);
        load(in->terms.mean + c, mean), load(in->terms.scale + c, scale);
        load(terms->offset + c, offset), load(terms->slope + c, slope);
        store(g * scale - offset - (x - mean) * slope, result + row + c);
      }
  }
};

/// Calls slice(number, first row, rows) for each of kRowSlices, in several threads.
template <class Slice>
void over_slices(std::int64_t rows, const Slice& slice) {
  at::parallel_for(0, kRowSlices, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      const std::int64_t first = rows * number / kRowSlices, last = rows * (number + 1) / kRowSlices;
      if (last > first) slice(number, first, last - first);
    }
  });
}

struct Statistics {
  at::Tensor mean;     // [C]
  at::Tensor inverse;  // [C], of the standard deviation
  at::Tensor unbiased_variance;
};

/// Computes what `statistics` holds memory for.
void compute_statistics(const at::Tensor& input, double eps, Statistics& statistics) {
  const PixelRows rows = pixel_rows(input);
  const auto channels = static_cast<std::size_t>(rows.channels);
  std::vector<double> moments(2 * channels * static_cast<std::size_t>(kRowSlices), 0);
  const auto moments_of = [&](std::int64_t slice) {
    double* mean = moments.data() + static_cast<std::size_t>(slice) * 2 * channels;
    return Moments{mean, mean + channels};
  };
  const auto* x = input.const_data_ptr<float>();
  over_slices(rows.count, [&](std::int64_t slice, std::int64_t first, std::int64_t count) {
    std::vector<float> sums(3 * channels);
    const Moments own = moments_of(slice);
    vectorized<RowMoments>(x + first * rows.channels, count, rows.channels, &own, sums.data());
  });
  const Moments all = moments_of(0);
  const auto first_row = [&](std::int64_t slice) { return rows.count * slice / kRowSlices; };
  for (std::int64_t slice = 1; slice < kRowSlices; ++slice) {
    const auto before = static_cast<double>(first_row(slice));
    const auto own = static_cast<double>(first_row(slice + 1) - first_row(slice));
    if (own == 0) continue;
    const Moments other = moments_of(slice);
    for (std::int64_t c = 0; c < rows.channels; ++c) pool(all, before, own, other.mean[c], other.squares[c], c);
  }
  auto* mean = statistics.mean.mutable_data_ptr<float>();
  auto* inverse = statistics.inverse.mutable_data_ptr<float>();
  auto* variance = statistics.unbiased_variance.mutable_data_ptr<float>();
  const auto count = static_cast<double>(rows.count);
  for (std::int64_t c = 0; c < rows.channels; ++c) {
    mean[c] = static_cast<float>(all.mean[c]);
    inverse[c] = static_cast<float>(1 / std::sqrt(all.squares[c] / count + eps));
    variance[c] = static_cast<float>(all.squares[c] / (count - 1));
  }
}

std::int64_t rows_per_thread(std::int64_t channels) {
  return std::max<std::int64_t>(1, 16384 / channels);
}

void normalize(const at::Tensor& input, const std::optional<at::Tensor>& add, const at::Tensor& weight,
               const at::Tensor& bias, const Statistics& statistics, bool relu, at::Tensor& output) {
  const PixelRows rows = pixel_rows(input);
  const at::Tensor scale = weight.detach().mul(statistics.inverse);
  const NormTerms terms{statistics.mean.const_data_ptr<float>(), scale.const_data_ptr<float>(),
                        bias.const_data_ptr<float>()};
  const auto* x = input.const_data_ptr<float>();
  const auto* added = add ? add->const_data_ptr<float>() : nullptr;
  auto* y = output.mutable_data_ptr<float>();
  at::parallel_for(0, rows.count, rows_per_thread(rows.channels), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * rows.channels;
    vectorized<NormalizeRows>(x + first, added == nullptr ? nullptr : added + first, &terms,
                              PixelRows{end - begin, rows.channels}, relu, y + first);
  });
}

struct NormGradients {
  at::Tensor input, weight, bias;
  at::Tensor masked;  // of what was added; with Mask::saved
};

template <Mask kMask>
void compute_gradients(const BackwardRows& in, const at::Tensor& inverse, NormGradients& gradients) {
  const std::int64_t channels = in.range.channels;
  const auto both = static_cast<std::size_t>(2 * channels);
  std::vector<double> totals(both * static_cast<std::size_t>(kRowSlices), 0);
  auto* const masked = kMask == Mask::saved ? gradients.masked.mutable_data_ptr<float>() : nullptr;
  const auto rows_from = [&](std::int64_t first, std::int64_t count) {
    BackwardRows some = in;
    some.input += first * channels, some.gradient += first * channels;
    if (kMask == Mask::saved) some.output += first * channels;
    some.range.count = count;
    return some;
  };
  over_slices(in.range.count, [&](std::int64_t slice, std::int64_t first, std::int64_t count) {
    std::vector<float> sums(both);
    const BackwardRows some = rows_from(first, count);
    vectorized<GradientSums<kMask>>(&some, totals.data() + static_cast<std::size_t>(slice) * both, sums.data(),
                                    masked == nullptr ? nullptr : masked + first * channels);
  });
  for (std::size_t i = both; i < totals.size(); ++i) totals[i % both] += totals[i];

  const at::Tensor terms = at::empty({2, channels}, inverse.options());
  auto* const offset = terms.mutable_data_ptr<float>();
  auto* const of_weight = gradients.weight.mutable_data_ptr<float>();
  auto* const of_bias = gradients.bias.mutable_data_ptr<float>();
  const auto* deviation = inverse.const_data_ptr<float>();
  for (std::int64_t c = 0; c < channels; ++c) {
    const double sum = totals[static_cast<std::size_t>(c)], product = totals[static_cast<std::size_t>(channels + c)];
    const auto scale = static_cast<double>(in.terms.scale[c]), inverted = static_cast<double>(deviation[c]);
    const auto count = static_cast<double>(in.range.count);
    of_bias[c] = static_cast<float>(sum);
    of_weight[c] = static_cast<float>(product * inverted);
    offset[c] = static_cast<float>(scale * sum / count);
    offset[channels + c] = static_cast<float>(scale * product * inverted * inverted / count);
  }
  const GradientTerms gradient_terms{offset, offset + channels};
  auto* const of_input = gradients.input.mutable_data_ptr<float>();
  // With Mask::saved, the masked gradient is there by now.
  constexpr Mask kLeft = kMask == Mask::saved ? Mask::none : kMask;
  at::parallel_for(0, in.range.count, rows_per_thread(channels), [&](std::int64_t begin, std::int64_t end) {
    BackwardRows some = rows_from(begin, end - begin);
    if (kMask == Mask::saved) some.gradient = masked + begin * channels;
    vectorized<InputGradient<kLeft>>(&some, &gradient_terms, of_input + begin * channels);
  });
}

/// Dense, as the input is.
at::Tensor laid_out_as(const at::Tensor& input, const at::Tensor& other) {
  return other.contiguous(input.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

struct BatchNormFunction final : torch::autograd::Function<BatchNormFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias, double eps, const std::optional<at::Tensor>& add, bool relu) {
    RECORD_FUNCTION("trainctl::batch_norm", std::vector<c10::IValue>({input}));
    const at::Tensor output = at::empty_like(input);
    const auto per_channel = [&] { return at::empty({input.size(1)}, input.options()); };
    Statistics statistics{per_channel(), per_channel(), per_channel()};
    if (!runtime::is_fake(input)) {
      compute_statistics(input, eps, statistics);
      at::Tensor result = output;
      normalize(input, add, weight, bias, statistics, relu, result);
    }
    context->saved_data["relu"] = relu;
    context->saved_data["add"] = add.has_value();
    context->save_for_backward(
        {input, weight, bias, statistics.mean, statistics.inverse, add && relu ? output : at::Tensor()});
    context->mark_non_differentiable({statistics.mean, statistics.unbiased_variance});
    return {output, statistics.mean, statistics.unbiased_variance};
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    RECORD_FUNCTION("trainctl::batch_norm_backward", std::vector<c10::IValue>({input}));
    const bool relu = context->saved_data["relu"].toBool(), has_added = context->saved_data["add"].toBool();
    const at::Tensor gradient = laid_out_as(input, output_gradients[0]);
    NormGradients gradients{at::empty_like(input), at::empty_like(saved[1]), at::empty_like(saved[2]),
                            has_added && relu ? at::empty_like(input) : gradient};
    if (!runtime::is_fake(input)) {
      const PixelRows rows = pixel_rows(input);
      const at::Tensor scale = saved[1].detach().mul(saved[4]);
      const BackwardRows in{
          .input = input.const_data_ptr<float>(),
          .gradient = gradient.const_data_ptr<float>(),
          .output = saved[5].defined() ? saved[5].const_data_ptr<float>() : nullptr,
          .terms = {saved[3].const_data_ptr<float>(), scale.const_data_ptr<float>(), saved[2].const_data_ptr<float>()},
          .range = {rows.count, rows.channels}};
      if (!relu)
        compute_gradients<Mask::none>(in, saved[4], gradients);
      else if (has_added)
        compute_gradients<Mask::saved>(in, saved[4], gradients);
      else
        compute_gradients<Mask::computed>(in, saved[4], gradients);
    }
    return {
        gradients.input, gradients.weight, gradients.bias, at::Tensor(), has_added ? gradients.masked : at::Tensor(),
        at::Tensor()};
  }
};

}  // namespace

bool suits_batch_norm(const at::Tensor& input, const at::Tensor& weight) {
  const bool is_rows = input.dim() == 2   ? input.is_contiguous()
                       : input.dim() == 4 ? input.is_contiguous(at::MemoryFormat::ChannelsLast)
                                          : false;
  return is_rows && input.is_cpu() && input.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
         input.size(1) % kMaxLanes == 0 && !PortableOperators::are_wanted();
}

BatchNormResult batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, double eps,
                           const AfterNorm& after) {
  core::ensure(input.numel() > input.size(1), "batch_norm was given one value per channel");
  std::optional<at::Tensor> add;
  if (after.add) add = laid_out_as(input, *after.add);
  const variable_list results = BatchNormFunction::apply(input, weight, bias, eps, add, after.relu);
  return {.output = results[0], .mean = results[1], .variance = results[2]};
}

}  // namespace trainctl::kernels
