#include "kernels/matrix_product.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>

#include "kernels/portable.h"
#include "runtime/hollow.h"

namespace at::native {
// LibTorch exports it without a header: result = alpha left · right + beta result, by oneDNN, however the factors lie.
void mkldnn_matmul(const at::Tensor& left, const at::Tensor& right, const at::Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace trainctl {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLeastWork = 1 << 21;  // multiplications; below, the call is what costs

// MKL writes a product as wide as a vocabulary at two thirds of its speed; in panels of this many columns at all of it.
constexpr std::int64_t kPanel = 1024;

/// On AMD's processors MKL stays with AVX2 kernels of its own making: oneDNN's were 1.2 times as fast on Zen 4 with
/// AVX-512, 1.1 times with AVX2. A fact of the processor, not a measurement, so that runs repeat to the bit.
bool onednn_is_faster() {
#if defined(__x86_64__)
  static const bool amd = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return amd;
#else
  return false;
#endif
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided;
}

bool is_dense_matrix(const at::Tensor& matrix) {
  return matrix.is_contiguous() || matrix.t().is_contiguous();
}

/// input [..., in], weight [out, in].
bool suits_onednn(const at::Tensor& input, const at::Tensor& weight) {
  return onednn_is_faster() && is_plain(input) && is_plain(weight) && weight.dim() == 2 && is_dense_matrix(weight) &&
         input.dim() >= 2 && input.numel() * weight.size(0) >= kLeastWork;
}

/// left · right of a left side that lies transposed, as in every weight's gradient. linear's operator would copy it.
bool suits_onednn_transposed(const at::Tensor& left, const at::Tensor& right) {
  return onednn_is_faster() && is_plain(left) && is_plain(right) && left.t().is_contiguous() &&
         is_dense_matrix(right) && left.numel() * right.size(1) >= kLeastWork;
}

/// input Wᵀ + bias by oneDNN; knows nothing of autograd.
at::Tensor onednn_linear(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<c10::string_view>);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  return op.call(input, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

/// result = left · right + beta result.
void onednn_product(const at::Tensor& left, const at::Tensor& right, at::Tensor& result, float beta) {
  RECORD_FUNCTION("trainctl::matrix_product", std::vector<c10::IValue>({left, right}));
  if (is_hollow(left)) return;
  at::native::mkldnn_matmul(left, right, result, beta, /*alpha=*/1);
}

struct OneDnnLinear final : torch::autograd::Function<OneDnnLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    RECORD_FUNCTION("trainctl::linear", std::vector<c10::IValue>({input, weight}));
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    return onednn_linear(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor gradient = output_gradients[0].reshape({-1, weight.size(0)});
    at::Tensor input_gradient;
    at::Tensor weight_gradient;
    at::Tensor bias_gradient;
    if (context->needs_input_grad(0)) input_gradient = matrix_product(gradient, weight).view(input.sizes());
    if (context->needs_input_grad(1)) {
      const at::Tensor rows = input.reshape({-1, weight.size(1)});
      // The gradient lies as the weight does.
      weight_gradient =
          weight.is_contiguous() ? matrix_product(gradient.t(), rows) : matrix_product(rows.t(), gradient).t();
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) bias_gradient = gradient.sum(0);
    return {input_gradient, weight_gradient, bias_gradient};
  }
};

}  // namespace

at::Tensor linear_product(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (!suits_onednn(input, weight) || at::autocast::is_autocast_enabled(at::kCPU) || PortableOperators::are_wanted())
    return at::linear(input, weight, bias);
  return OneDnnLinear::apply(input, weight, bias);
}

at::Tensor matrix_product(const at::Tensor& left, const at::Tensor& right) {
  const std::int64_t width = right.size(1);
  if (suits_onednn_transposed(left, right)) {
    at::Tensor product = at::empty({left.size(0), width}, left.options());
    onednn_product(left, right, product, /*beta=*/0);
    return product;
  }
  if (suits_onednn(left, right.t())) return onednn_linear(left, right.t(), {});
  if (!is_plain(left) || width <= 4 * kPanel) return at::mm(left, right);
  at::Tensor product = at::empty({left.size(0), width}, left.options());
  for (std::int64_t begin = 0; begin < width; begin += kPanel) {
    const std::int64_t count = std::min(kPanel, width - begin);
    at::Tensor panel = product.narrow(1, begin, count);
    at::mm_out(panel, left, right.narrow(1, begin, count));
  }
  return product;
}

void add_matrix_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right) {
  if (sum.scalar_type() != left.scalar_type())
    sum.add_(at::mm(left, right));
  else if (suits_onednn_transposed(left, right))
    onednn_product(left, right, sum, /*beta=*/1);
  else
    sum.addmm_(left, right);
}

}  // namespace trainctl
