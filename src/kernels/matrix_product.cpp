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
#include <utility>

#include "kernels/copy_by_rows.h"
#include "kernels/float8_linear.h"
#include "kernels/portable.h"
#include "machine/cpu.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLeastWork = 1 << 21;  // multiplications; below this, call overhead dominates

// MKL reaches two thirds of its speed on products with an extent of vocabulary size, and more on panels of them.
constexpr std::int64_t kProductPanel = 4096;
constexpr std::int64_t kWide = 2 * kProductPanel;

bool is_float_on_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided;
}

bool is_dense_matrix(const at::Tensor& matrix) {
  return matrix.is_contiguous() || matrix.t().is_contiguous();
}

/// oneDNN's linear layer. Only the dispatcher declares it; find() returns null if LibTorch is built without oneDNN.
class OneDnnOperator {
 public:
  static const OneDnnOperator* find() {
    static const std::optional<c10::OperatorHandle> handle =
        c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    static const std::optional<OneDnnOperator> found =
        handle ? std::optional(OneDnnOperator(handle->typed<Signature>())) : std::nullopt;
    return found ? &*found : nullptr;
  }
  /// Computes input Wᵀ + bias, without autograd.
  at::Tensor operator()(const at::Tensor& input, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias) const {
    return operator_.call(input, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
  }

 private:
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<c10::string_view>);
  explicit OneDnnOperator(c10::TypedOperatorHandle<Signature> handle) : operator_(std::move(handle)) {}
  c10::TypedOperatorHandle<Signature> operator_;
};

/// Whether oneDNN computes input [..., in] times weight [out, in] transposed. Its operator copies an input whose rows
/// are not contiguous.
bool suits_onednn(const at::Tensor& input, const at::Tensor& weight, ProductLibrary library) {
  return library == ProductLibrary::onednn && is_float_on_cpu(input) && is_float_on_cpu(weight) && weight.dim() == 2 &&
         is_dense_matrix(weight) && input.dim() >= 2 && input.numel() * weight.size(0) >= kLeastWork &&
         OneDnnOperator::find() != nullptr;
}

/// Returns the faster library for these factors, by benchmarks/limits.py and decision 0066:
///
/// - A right factor that lies row by row and is no wider than tall is oneDNN's on Intel's processors with AVX-512, too.
///   It is 3 to 8 % faster than MKL there.
/// - A left factor that lies transposed is copied for oneDNN. With AVX2 alone, the copy takes what oneDNN gains.
ProductLibrary library_for(const at::Tensor& left, const at::Tensor& right) {
  if (!left.is_contiguous()) return machine::onednn_features().avx512f ? product_library() : ProductLibrary::mkl;
  const bool is_tall = right.is_contiguous() && right.size(0) >= right.size(1);
  return is_tall && machine::cpu_features().avx512f ? ProductLibrary::onednn : product_library();
}

/// Returns left · right by oneDNN, or nothing where it is not the library, or the factors don't suit it.
std::optional<at::Tensor> onednn_product(const at::Tensor& left, const at::Tensor& right, ProductLibrary library) {
  if (!suits_onednn(left, right.t(), library)) return {};
  if (left.is_contiguous()) return (*OneDnnOperator::find())(left, right.t(), {});
  if (left.t().is_contiguous()) return (*OneDnnOperator::find())(copy_by_rows(left), right.t(), {});
  return {};
}

struct Range {
  std::int64_t begin;
  std::int64_t count;
};

/// Calls `multiply(panel, rows, columns)` for each panel of a product. A product that is not wide is one panel.
template <class Multiply>
void for_each_panel(at::Tensor& product, const Multiply& multiply) {
  const std::int64_t rows = product.size(0);
  const std::int64_t columns = product.size(1);
  const auto step = [](std::int64_t extent) {
    return extent > kWide ? kProductPanel : std::max<std::int64_t>(extent, 1);
  };
  for (std::int64_t row = 0; row < rows; row += step(rows))
    for (std::int64_t column = 0; column < columns; column += step(columns)) {
      const Range some_rows{row, std::min(step(rows), rows - row)};
      const Range some_columns{column, std::min(step(columns), columns - column)};
      multiply(product.narrow(0, row, some_rows.count).narrow(1, column, some_columns.count), some_rows, some_columns);
    }
}

/// Returns the gradient of a weight [out, in] in its memory layout.
at::Tensor weight_gradient_of(const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& rows) {
  return weight.is_contiguous() ? matrix_product(gradient.t(), rows) : matrix_product(rows.t(), gradient).t();
}

struct OneDnnLinearFunction final : torch::autograd::Function<OneDnnLinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    RECORD_FUNCTION("trainctl::linear", std::vector<c10::IValue>({input, weight}));
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    return (*OneDnnOperator::find())(input, weight, bias);
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
    if (context->needs_input_grad(1))
      weight_gradient = weight_gradient_of(weight, gradient, input.reshape({-1, weight.size(1)}));
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) bias_gradient = gradient.sum(0);
    return {input_gradient, weight_gradient, bias_gradient};
  }
};

/// The layers' weights come first, then those of their biases that are there.
struct LinearProductsFunction final : torch::autograd::Function<LinearProductsFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const at::TensorList& /*parameters*/,
                               const std::vector<LinearFactors>& layers) {
    RECORD_FUNCTION("trainctl::linear_products", std::vector<c10::IValue>({input}));
    variable_list saved{input};
    std::vector<bool> has_bias;
    variable_list outputs;
    for (const LinearFactors& layer : layers) {
      saved.push_back(layer.weight);
      has_bias.push_back(layer.bias.has_value());
      outputs.push_back(at::linear(input, layer.weight, layer.bias));
    }
    context->save_for_backward(saved);
    context->set_materialize_grads(false);  // what isn't used has no gradient
    context->saved_data["has_bias"] = has_bias;
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor rows = input.reshape({-1, input.size(-1)});
    const c10::List<bool> has_bias = context->saved_data["has_bias"].toBoolList();
    const auto num_biases = static_cast<std::size_t>(std::count(has_bias.begin(), has_bias.end(), true));
    variable_list gradients(1 + output_gradients.size() + num_biases + 1);
    std::size_t bias = output_gradients.size();  // the place among the parameters
    at::Tensor sum;
    for (std::size_t layer = 0; layer < output_gradients.size(); ++layer) {
      const std::size_t own_bias = has_bias.get(layer) ? ++bias : 0;
      if (!output_gradients[layer].defined()) continue;
      const at::Tensor& weight = saved[1 + layer];
      const at::Tensor gradient = output_gradients[layer].reshape({-1, weight.size(0)});
      if (context->needs_input_grad(0)) sum.defined() ? sum.addmm_(gradient, weight) : sum = at::mm(gradient, weight);
      if (context->needs_input_grad(1 + layer)) gradients[1 + layer] = weight_gradient_of(weight, gradient, rows);
      if (own_bias != 0 && context->needs_input_grad(own_bias)) gradients[own_bias] = gradient.sum(0);
    }
    if (sum.defined()) gradients[0] = sum.view(input.sizes());
    return gradients;
  }
};

}  // namespace

ProductLibrary product_library() {
#if defined(__x86_64__)
  return machine::is_intel() ? ProductLibrary::mkl : ProductLibrary::onednn;
#else
  return ProductLibrary::mkl;
#endif
}

at::Tensor linear_product(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                          ProductLibrary library) {
  if (Float8Products::are_wanted() && suits_float8(input, weight) && !PortableOperators::are_wanted())
    return float8_linear(input, weight, bias);
  if (!suits_onednn(input, weight, library) || at::autocast::is_autocast_enabled(at::kCPU) ||
      PortableOperators::are_wanted())
    return at::linear(input, weight, bias);
  return OneDnnLinearFunction::apply(input, weight, bias);
}

bool shares_input_gradient(const at::Tensor& input, ProductLibrary library) {
  return is_float_on_cpu(input) && library == ProductLibrary::mkl && c10::GradMode::is_enabled() &&
         !at::autocast::is_autocast_enabled(at::kCPU) && !PortableOperators::are_wanted() &&
         !Float8Products::are_wanted();
}

std::vector<at::Tensor> linear_products(const at::Tensor& input, const std::vector<LinearFactors>& layers,
                                        ProductLibrary library) {
  std::vector<at::Tensor> outputs;
  if (!shares_input_gradient(input, library)) {
    for (const LinearFactors& layer : layers)
      outputs.push_back(linear_product(input, layer.weight, layer.bias, library));
    return outputs;
  }
  std::vector<at::Tensor> parameters;
  for (const LinearFactors& layer : layers) parameters.push_back(layer.weight);
  for (const LinearFactors& layer : layers)
    if (layer.bias) parameters.push_back(*layer.bias);
  return LinearProductsFunction::apply(input, at::TensorList(parameters), layers);
}

at::Tensor matrix_product(const at::Tensor& left, const at::Tensor& right, std::optional<ProductLibrary> library) {
  const bool is_wide = std::max(left.size(0), right.size(1)) > kWide;
  if (left.is_contiguous() || !is_wide)
    if (const auto product = onednn_product(left, right, library.value_or(library_for(left, right)))) return *product;
  if (!is_float_on_cpu(left) || !is_wide) return at::mm(left, right);
  at::Tensor product = at::empty({left.size(0), right.size(1)}, left.options());
  for_each_panel(product, [&](at::Tensor panel, Range rows, Range columns) {
    at::mm_out(panel, left.narrow(0, rows.begin, rows.count), right.narrow(1, columns.begin, columns.count));
  });
  return product;
}

void add_matrix_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right, double beta) {
  if (sum.scalar_type() != left.scalar_type()) {
    const at::Tensor product = at::mm(left, right);
    beta == 0 ? sum.copy_(product) : sum.mul_(beta).add_(product);
    return;
  }
  for_each_panel(sum, [&](at::Tensor panel, Range rows, Range columns) {
    panel.addmm_(left.narrow(0, rows.begin, rows.count), right.narrow(1, columns.begin, columns.count), beta);
  });
}

}  // namespace trainctl::kernels
