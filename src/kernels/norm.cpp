#include "kernels/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "kernels/cuda_grid.h"
#include "kernels/device/operators.h"
#include "kernels/norm_rows.h"
#include "kernels/portable.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

const float* data(const MaybeTensor& tensor) {
  return tensor && tensor->defined() ? tensor->const_data_ptr<float>() : nullptr;
}
template <class T>
T* mutable_data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

/// Calls pass<Branch, Normed>() for the types that norm_rows.h takes.
template <class Pass>
void for_types(at::ScalarType branch, at::ScalarType normed, const Pass& pass) {
  if (branch == at::kFloat)
    pass.template operator()<float, float>();
  else if (normed == at::kFloat)
    pass.template operator()<at::BFloat16, float>();
  else
    pass.template operator()<at::BFloat16, at::BFloat16>();
}

FourTensors norm_on_cpu(const MaybeTensor& residual, const at::Tensor& branch, const at::Tensor& weight,
                        const MaybeTensor& bias, double epsilon, at::ScalarType normed_type) {
  const std::int64_t size = branch.size(-1), rows = branch.numel() / size;
  const auto floats = branch.options().dtype(at::kFloat);
  const bool has_residual = residual && residual->defined();
  const at::Tensor sum = has_residual ? at::empty_like(*residual) : at::Tensor();
  const at::Tensor normed = at::empty_like(branch, branch.options().dtype(normed_type));
  const at::Tensor means = bias && bias->defined() ? at::empty({rows}, floats) : at::Tensor();
  const at::Tensor scales = at::empty({rows}, floats);
  if (!runtime::is_fake(branch))
    for_types(branch.scalar_type(), normed_type, [&]<class Branch, class Normed>() {
      normalize_rows(NormRows<Branch, Normed>{.count = rows,
                                              .size = size,
                                              .epsilon = static_cast<float>(epsilon),
                                              .residual = data(residual),
                                              .branch = branch.const_data_ptr<Branch>(),
                                              .weight = weight.const_data_ptr<float>(),
                                              .bias = data(bias),
                                              .sum = mutable_data<float>(sum),
                                              .normed = normed.mutable_data_ptr<Normed>(),
                                              .means = mutable_data<float>(means),
                                              .scales = scales.mutable_data_ptr<float>()});
    });
  return {sum, normed, means, scales};
}

FourTensors norm_backward_on_cpu(const at::Tensor& normed_gradient, const MaybeTensor& sum_gradient,
                                 const at::Tensor& sum, const at::Tensor& weight, const MaybeTensor& means,
                                 const at::Tensor& scales, at::ScalarType branch_type) {
  const std::int64_t size = sum.size(-1);
  const at::Tensor incoming = normed_gradient.contiguous();
  const MaybeTensor more =
      sum_gradient && sum_gradient->defined() ? MaybeTensor(sum_gradient->contiguous()) : MaybeTensor();
  const at::Tensor gradient = at::empty_like(sum);
  const bool is_narrow = branch_type != at::kFloat;
  const at::Tensor branch = is_narrow ? at::empty_like(sum, sum.options().dtype(branch_type)) : at::Tensor();
  const auto sums = [&] { return at::empty({kNormSlices, size}, sum.options()); };
  const at::Tensor of_weight = sums();
  const at::Tensor of_bias = means && means->defined() ? sums() : at::Tensor();
  if (!runtime::is_fake(sum))
    for_types(branch_type, incoming.scalar_type(), [&]<class Branch, class Normed>() {
      differentiate_rows(NormRowGradients<Branch, Normed>{.count = sum.numel() / size,
                                                          .size = size,
                                                          .normed_gradient = incoming.const_data_ptr<Normed>(),
                                                          .sum_gradient = data(more),
                                                          .sum = sum.const_data_ptr<float>(),
                                                          .weight = weight.const_data_ptr<float>(),
                                                          .means = data(means),
                                                          .scales = scales.const_data_ptr<float>(),
                                                          .gradient = gradient.mutable_data_ptr<float>(),
                                                          .branch_gradient = mutable_data<Branch>(branch),
                                                          .weight_sums = of_weight.mutable_data_ptr<float>(),
                                                          .bias_sums = mutable_data<float>(of_bias)});
    });
  return {gradient, is_narrow ? branch : gradient, of_weight.sum(0), of_bias.defined() ? of_bias.sum(0) : at::Tensor()};
}

FourTensors norm_on_gpu(const MaybeTensor& residual, const at::Tensor& branch, const at::Tensor& weight,
                        const MaybeTensor& bias, double epsilon, at::ScalarType normed_type) {
  const c10::DeviceGuard guard(branch.device());
  return device::add_norm(cuda_grid(), residual, branch, weight, bias, epsilon, normed_type);
}

FourTensors norm_backward_on_gpu(const at::Tensor& normed_gradient, const MaybeTensor& sum_gradient,
                                 const at::Tensor& sum, const at::Tensor& weight, const MaybeTensor& means,
                                 const at::Tensor& scales, at::ScalarType branch_type) {
  const c10::DeviceGuard guard(sum.device());
  return device::add_norm_backward(cuda_grid(), normed_gradient, sum_gradient, sum, weight, means, scales, branch_type);
}

// Registered with LibTorch's dispatcher, which finds the device's.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def(
      "add_norm(Tensor? residual, Tensor branch, Tensor weight, Tensor? bias, float epsilon, ScalarType normed_type) "
      "-> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "add_norm_backward(Tensor normed_gradient, Tensor? sum_gradient, Tensor sum, Tensor weight, Tensor? means, "
      "Tensor scales, ScalarType branch_type) -> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("add_norm", &norm_on_cpu);
  library.impl("add_norm_backward", &norm_backward_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("add_norm", &norm_on_cpu);
  library.impl("add_norm_backward", &norm_backward_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, CUDA, library) {
  library.impl("add_norm", &norm_on_gpu);
  library.impl("add_norm_backward", &norm_backward_on_gpu);
}

struct AddNorm final : torch::autograd::Function<AddNorm> {
  /// Returns the normalized sum, and with a residual the sum.
  static variable_list forward(AutogradContext* context, const MaybeTensor& residual, const at::Tensor& branch,
                               const at::Tensor& weight, const MaybeTensor& bias, double epsilon,
                               at::ScalarType normed_type) {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("trainctl::add_norm", "").typed<decltype(norm_on_cpu)>();
    const auto [sum, normed, means, scales] = op.call(residual, branch, weight, bias, epsilon, normed_type);
    context->set_materialize_grads(false);
    context->save_for_backward({sum.defined() ? sum : branch, weight, means, scales});
    context->saved_data["branch_type"] = static_cast<std::int64_t>(branch.scalar_type());
    context->saved_data["normed_type"] = static_cast<std::int64_t>(normed_type);
    if (!sum.defined()) return {normed};
    return {normed, sum};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("trainctl::add_norm_backward", "")
                               .typed<decltype(norm_backward_on_cpu)>();
    const variable_list saved = context->get_saved_variables();
    const auto type = [&](const char* name) { return static_cast<at::ScalarType>(context->saved_data[name].toInt()); };
    const MaybeTensor of_sum =
        gradients.size() > 1 && gradients[1].defined() ? MaybeTensor(gradients[1]) : MaybeTensor();
    if (!gradients[0].defined()) {  // only the sum is used
      if (!of_sum) return variable_list(6);
      return {*of_sum, of_sum->to(type("branch_type")), {}, {}, {}, {}};
    }
    const MaybeTensor means = saved[2].defined() ? MaybeTensor(saved[2]) : MaybeTensor();
    const auto [gradient, branch, of_weight, of_bias] =
        op.call(gradients[0].to(type("normed_type")), of_sum, saved[0], saved[1], means, saved[3], type("branch_type"));
    return {gradients.size() > 1 ? gradient : at::Tensor(), branch, of_weight, of_bias, {}, {}};
  }
};

MaybeTensor maybe(const at::Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : MaybeTensor();
}

/// Whether the kernels take these tensors; `branch` is all there is without a residual.
bool norm_has_kernel(const at::Tensor& residual, const at::Tensor& branch, const NormParameters& parameters) {
  if (PortableOperators::are_wanted() || !device::fits_norm(branch)) return false;
  const auto is_fp32 = [](const at::Tensor& tensor) { return !tensor.defined() || tensor.scalar_type() == at::kFloat; };
  if (!is_fp32(residual) || !is_fp32(parameters.weight) || !is_fp32(parameters.bias)) return false;
  if (residual.defined() && (residual.sizes() != branch.sizes() || residual.device() != branch.device())) return false;
  if (branch.scalar_type() == at::kFloat) return branch.is_cpu() || branch.is_cuda();
  if (!residual.defined()) return false;
  return branch.is_cpu() ? branch.scalar_type() == at::kBFloat16 : branch.is_cuda() && device::has_kernels_for(branch);
}

variable_list apply_norm(const at::Tensor& residual, const at::Tensor& branch, const NormParameters& parameters,
                         at::ScalarType normed_type) {
  return AddNorm::apply(residual.defined() ? MaybeTensor(residual.contiguous()) : MaybeTensor(), branch.contiguous(),
                        parameters.weight, maybe(parameters.bias), parameters.epsilon, normed_type);
}

}  // namespace

at::Tensor norm(const at::Tensor& input, const NormParameters& parameters) {
  const at::Tensor& weight = parameters.weight;
  if (norm_has_kernel({}, input, parameters)) return apply_norm({}, input, parameters, at::kFloat).front();
  return parameters.bias.defined() ? at::layer_norm(input, weight.sizes(), weight, parameters.bias, parameters.epsilon)
                                   : at::rms_norm(input, weight.sizes(), weight, parameters.epsilon);
}

NormedSum add_norm(const at::Tensor& residual, const at::Tensor& branch, const NormParameters& parameters,
                   NormedFor use) {
  if (!norm_has_kernel(residual, branch, parameters)) {
    const at::Tensor sum = residual.add(branch);
    return {.sum = sum, .normed = norm(sum, parameters)};
  }
  const variable_list results =
      apply_norm(residual, branch, parameters, use == NormedFor::products ? branch.scalar_type() : at::kFloat);
  return {.sum = results[1], .normed = results[0]};
}

}  // namespace trainctl::kernels
