#include "kernels/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/portable.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kNumSums = 16;
constexpr std::int64_t kSlices = 16;  // of the rows; a fixed number makes sums independent of the number of threads

/// Computes Σ f(i) with kNumSums partial sums, which the compiler keeps in vector registers.
template <class T, class Term>
T sum(std::int64_t size, const Term& term) {
  T lanes[kNumSums] = {};
  std::int64_t i = 0;
  for (; i + kNumSums <= size; i += kNumSums)
    for (std::int64_t lane = 0; lane < kNumSums; ++lane) lanes[lane] += term(i + lane);
  T total = 0;
  for (; i < size; ++i) total += term(i);
  for (const T lane : lanes) total += lane;
  return total;
}

struct NormRows {
  std::int64_t count;
  std::int64_t size;
};
NormRows norm_rows(const at::Tensor& input) {
  return {.count = input.numel() / input.size(-1), .size = input.size(-1)};
}

/// Normalizes rows; `scales` [rows] receives 1 / root mean square.
template <class T>
void forward_rows(const NormRows& rows, const T* input, const T* weight, double epsilon, T* output, T* scales) {
  at::parallel_for(0, rows.count, std::max<std::int64_t>(1, 16384 / rows.size),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       const T* x = input + row * rows.size;
                       T* y = output + row * rows.size;
                       const T square = sum<T>(rows.size, [x](std::int64_t i) { return x[i] * x[i]; });
                       const T scale = 1 / std::sqrt(square / static_cast<T>(rows.size) + static_cast<T>(epsilon));
                       for (std::int64_t i = 0; i < rows.size; ++i) y[i] = x[i] * scale * weight[i];
                       scales[row] = scale;
                     }
                   });
}

/// Computes gradients; `weight_sums` [kSlices, D] must be zeroed.
template <class T>
void backward_rows(const NormRows& rows, const T* input, const T* weight, const T* scales, const T* output_gradient,
                   T* input_gradient, T* weight_sums) {
  at::parallel_for(0, kSlices, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t slice = first; slice < last; ++slice) {
      T* sums = weight_sums + slice * rows.size;
      for (std::int64_t row = slice * rows.count / kSlices; row < (slice + 1) * rows.count / kSlices; ++row) {
        const T* x = input + row * rows.size;
        const T* g = output_gradient + row * rows.size;
        T* dx = input_gradient + row * rows.size;
        const T scale = scales[row];
        const T dot = sum<T>(rows.size, [=](std::int64_t i) { return g[i] * weight[i] * x[i]; });
        const T shared = dot * scale * scale / static_cast<T>(rows.size);
        for (std::int64_t i = 0; i < rows.size; ++i) dx[i] = scale * (g[i] * weight[i] - x[i] * shared);
        for (std::int64_t i = 0; i < rows.size; ++i) sums[i] += g[i] * x[i] * scale;
      }
    }
  });
}

struct RmsNormFunction final : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            double epsilon) {
    RECORD_FUNCTION("trainctl::rms_norm", std::vector<c10::IValue>());
    const NormRows rows = norm_rows(input);
    at::Tensor output = at::empty_like(input);
    at::Tensor scales = at::empty({rows.count}, input.options());
    const auto run = [&]<class T>(T) {
      if (runtime::is_fake(input)) return;
      forward_rows(rows, input.const_data_ptr<T>(), weight.const_data_ptr<T>(), epsilon, output.mutable_data_ptr<T>(),
                   scales.mutable_data_ptr<T>());
    };
    input.scalar_type() == at::kFloat ? run(float{}) : run(double{});
    context->save_for_backward({input, weight, scales});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    RECORD_FUNCTION("trainctl::rms_norm_backward", std::vector<c10::IValue>());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor gradient = output_gradients[0].contiguous();
    const NormRows rows = norm_rows(input);
    at::Tensor input_gradient = at::empty_like(input);
    std::vector<std::int64_t> shape{kSlices, rows.size};
    at::Tensor sums = at::empty(shape, weight.options()).zero_();
    const auto run = [&]<class T>(T) {
      if (runtime::is_fake(input)) return;
      backward_rows(rows, input.const_data_ptr<T>(), weight.const_data_ptr<T>(), saved[2].const_data_ptr<T>(),
                    gradient.const_data_ptr<T>(), input_gradient.mutable_data_ptr<T>(), sums.mutable_data_ptr<T>());
    };
    input.scalar_type() == at::kFloat ? run(float{}) : run(double{});
    return {input_gradient, sums.sum(0), at::Tensor()};
  }
};

/// Whether the loops above can run: on the CPU, with a single dtype.
bool has_own_loops(const at::Tensor& input, const at::Tensor& weight) {
  return input.device().is_cpu() && (input.scalar_type() == at::kFloat || input.scalar_type() == at::kDouble) &&
         weight.scalar_type() == input.scalar_type() && input.numel() > 0;
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) {
  if (PortableOperators::are_wanted() || !has_own_loops(input, weight))
    return at::rms_norm(input, weight.sizes(), weight, epsilon);
  return RmsNormFunction::apply(input.contiguous(), weight, epsilon);
}

}  // namespace trainctl::kernels
