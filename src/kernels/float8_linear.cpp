#include "kernels/float8_linear.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>
#include <utility>

#include "kernels/cuda_grid.h"
#include "kernels/device/operators.h"
#include "machine/cpu.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Quantized = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr std::int64_t kMultiple = 16;  // of the sizes, as cuBLAS wants them

thread_local bool is_wanted = false;

float scale_of(float amax, at::ScalarType format) {
  return format == at::kFloat8_e4m3fn ? device::scale_for<c10::Float8_e4m3fn>(amax)
                                      : device::scale_for<c10::Float8_e5m2>(amax);
}

/// What the GPU's kernel is compared with.
Quantized quantize_on_cpu(const at::Tensor& input, const at::Tensor& amax, at::ScalarType format) {
  const std::int64_t rows = input.size(0), columns = input.size(1);
  const auto eight_bits = input.options().dtype(format);
  const auto floats = input.options().dtype(at::kFloat);
  if (runtime::is_fake(input))
    return {at::empty({rows, columns}, eight_bits), at::empty({columns, rows}, eight_bits), at::empty({}, floats)};
  const float scale = scale_of(amax.item<float>(), format);
  const double largest = format == at::kFloat8_e4m3fn ? device::Float8Limits<c10::Float8_e4m3fn>::largest
                                                      : device::Float8Limits<c10::Float8_e5m2>::largest;
  const at::Tensor quantized =
      input.to(at::kFloat).mul(static_cast<double>(scale)).clamp_(-largest, largest).to(format).contiguous();
  return {quantized, quantized.t().contiguous(), at::empty({}, floats).fill_(static_cast<double>(1.0F / scale))};
}

Quantized quantize_on_gpu(const at::Tensor& input, const at::Tensor& amax, at::ScalarType format) {
  const c10::DeviceGuard guard(input.device());
  return device::quantize(cuda_grid(), input, amax, format);
}

/// left [N, K] · right [K, M], where right lies transposed in memory.
at::Tensor multiply(const at::Tensor& left, const at::Tensor& right, const at::Tensor& left_inverse,
                    const at::Tensor& right_inverse, const std::optional<at::Tensor>& bias, at::ScalarType type,
                    bool is_fast) {
  return at::_scaled_mm(left, right, left_inverse, right_inverse, bias, std::nullopt, type, is_fast);
}

/// LibTorch takes oneDNN on processors with AMX, even if ONEDNN_MAX_CPU_ISA forbids AMX, without which oneDNN has no
/// such product.
at::Tensor multiply_on_cpu(const at::Tensor& left, const at::Tensor& right, const at::Tensor& left_inverse,
                           const at::Tensor& right_inverse, const std::optional<at::Tensor>& bias, at::ScalarType type,
                           bool is_fast) {
  if (!machine::cpu_features().amx_int8 || machine::onednn_features().amx_int8)
    return multiply(left, right, left_inverse, right_inverse, bias, type, is_fast);
  at::Tensor sums = at::mm(left.to(at::kFloat).mul(left_inverse), right.to(at::kFloat).mul(right_inverse));
  if (bias) sums.add_(*bias);
  return sums.to(type);
}

at::Tensor multiply_nothing(const at::Tensor& left, const at::Tensor& right, const at::Tensor&, const at::Tensor&,
                            const std::optional<at::Tensor>&, at::ScalarType type, bool) {
  return at::empty({left.size(0), right.size(1)}, left.options().dtype(type));
}

// Registered with LibTorch's dispatcher, which finds the device's. `scaled_mm` is LibTorch's, which has none for Meta.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def("quantize_float8(Tensor input, Tensor amax, ScalarType format) -> (Tensor, Tensor, Tensor)");
  library.def(
      "scaled_mm(Tensor left, Tensor right, Tensor left_inverse, Tensor right_inverse, Tensor? bias, ScalarType type, "
      "bool is_fast) -> Tensor");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("quantize_float8", &quantize_on_cpu);
  library.impl("scaled_mm", &multiply_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("quantize_float8", &quantize_on_cpu);
  library.impl("scaled_mm", &multiply_nothing);
}
TORCH_LIBRARY_IMPL(trainctl, CUDA, library) {
  library.impl("quantize_float8", &quantize_on_gpu);
  library.impl("scaled_mm", &multiply);
}

enum class Sums { fast, exact };  // of the GPU's product: fast ones have 14 bits on the way

at::Tensor product(const at::Tensor& left, const at::Tensor& right, const at::Tensor& left_inverse,
                   const at::Tensor& right_inverse, const std::optional<at::Tensor>& bias, at::ScalarType type,
                   Sums sums) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("trainctl::scaled_mm", "").typed<decltype(multiply)>();
  return op.call(left, right, left_inverse, right_inverse, bias, type, sums == Sums::fast);
}

/// Takes rows, [N, in], so that its output is no view: nothing could work on one in place.
struct Float8Linear final : torch::autograd::Function<Float8Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    const auto [x, x_columns, x_inverse] = quantize_float8(input, at::kFloat8_e4m3fn);
    const auto [w, w_columns, w_inverse] = quantize_float8(weight, at::kFloat8_e4m3fn);
    context->save_for_backward({x_columns, x_inverse, w_columns, w_inverse});
    context->saved_data["input_type"] = static_cast<std::int64_t>(input.scalar_type());
    context->saved_data["bias"] = bias.has_value();
    const std::optional<at::Tensor> offset = bias ? std::optional(bias->to(at::kBFloat16)) : std::nullopt;
    return product(x, w.t(), x_inverse, w_inverse, offset, at::kBFloat16, Sums::fast);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& gradient = output_gradients[0];
    const auto [g, g_columns, g_inverse] = quantize_float8(gradient, at::kFloat8_e5m2);
    variable_list results(3);
    if (context->needs_input_grad(0)) {
      const auto type = static_cast<at::ScalarType>(context->saved_data["input_type"].toInt());
      results[0] = product(g, saved[2].t(), g_inverse, saved[3], {}, at::kBFloat16, Sums::exact).to(type);
    }
    if (context->needs_input_grad(1))
      results[1] = product(g_columns, saved[0].t(), g_inverse, saved[1], {}, at::kFloat, Sums::exact);
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2))
      results[2] = gradient.sum(0, /*keepdim=*/false, at::kFloat);
    return results;
  }
};

}  // namespace

Float8Products::Float8Products(bool are_wanted) : outer_(std::exchange(is_wanted, are_wanted)) {}

Float8Products::~Float8Products() {
  is_wanted = outer_;
}

bool Float8Products::are_wanted() {
  return is_wanted;
}

bool is_float8_matrix(const at::Tensor& weight) {
  return weight.size(0) % kMultiple == 0 && weight.size(1) % kMultiple == 0;
}

bool suits_float8(const at::Tensor& input, const at::Tensor& weight) {
  return input.numel() > 0 && is_float8_matrix(weight) && input.numel() / weight.size(1) % kMultiple == 0;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> quantize_float8(const at::Tensor& input, at::ScalarType format) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("trainctl::quantize_float8", "")
                             .typed<decltype(quantize_on_cpu)>();
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);  // it would widen the tensor
  const at::Tensor amax =
      at::linalg_vector_norm(input.detach(), std::numeric_limits<double>::infinity()).to(at::kFloat);
  return op.call(input.detach(), amax, format);
}

at::Tensor float8_linear(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes.back() = weight.size(0);
  return Float8Linear::apply(input.reshape({-1, input.size(-1)}), weight, bias).view(sizes);
}

}  // namespace trainctl::kernels
