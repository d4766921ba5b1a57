#include "kernels/device/operators.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace trainctl::kernels::device {
namespace {

Element element_of(at::ScalarType type) {
  return type == at::kBFloat16 ? Element::bf16 : type == at::kHalf ? Element::fp16 : Element::fp32;
}

constexpr int kWidth = 4;

/// Returns how many neighbours a thread can read at once, if rows of `size` elements begin at an aligned address.
int width_for(std::int64_t size) {
  return size % kWidth == 0 ? kWidth : 1;
}

/// Returns the tensor, or a copy of it, dense in memory and aligned for kWidth elements at once.
at::Tensor aligned(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const auto address = reinterpret_cast<std::uintptr_t>(dense.const_data_ptr());
  return address % (kWidth * dense.element_size()) == 0 ? dense : dense.clone();
}
at::Tensor aligned(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? aligned(*tensor) : at::Tensor();
}

template <class T>
const T* data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}
template <class T>
T* mutable_data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

at::Tensor floats(std::initializer_list<std::int64_t> sizes, const at::Tensor& like) {
  return at::empty(at::IntArrayRef(sizes), like.options().dtype(at::kFloat));
}

/// Returns the sum of a block's or slice's rows, in their order.
at::Tensor sum_rows(const at::Tensor& rows) {
  return rows.defined() ? rows.sum(0) : at::Tensor();
}

}  // namespace

bool has_kernels_for(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16 ||
         tensor.scalar_type() == at::kHalf;
}

bool fits_norm(const at::Tensor& input) {
  return input.numel() > 0 && input.size(-1) <= AddNormBackwardArguments::kMostChunks * width_for(input.size(-1));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_norm(const Grid& grid,
                                                                    const std::optional<at::Tensor>& residual,
                                                                    const at::Tensor& branch, const at::Tensor& weight,
                                                                    const std::optional<at::Tensor>& bias,
                                                                    double epsilon, at::ScalarType normed_type) {
  const std::int64_t size = branch.size(-1), rows = branch.numel() / size;
  const at::Tensor left = aligned(residual), right = aligned(branch);
  const at::Tensor factors = aligned(weight), shifts = aligned(bias);
  const at::Tensor sum = left.defined() ? at::empty_like(left) : at::Tensor();
  const at::Tensor normed = at::empty_like(right, right.options().dtype(normed_type));
  const at::Tensor means = shifts.defined() ? floats({rows}, right) : at::Tensor();
  const at::Tensor scales = floats({rows}, right);
  grid.run(AddNormForwardArguments{.norm = shifts.defined() ? Norm::layer : Norm::rms,
                                   .branch_type = element_of(right.scalar_type()),
                                   .normed_type = element_of(normed_type),
                                   .rows = rows,
                                   .size = size,
                                   .width = width_for(size),
                                   .epsilon = static_cast<float>(epsilon),
                                   .residual = data<float>(left),
                                   .branch = right.const_data_ptr(),
                                   .weight = factors.const_data_ptr<float>(),
                                   .bias = data<float>(shifts),
                                   .sum = mutable_data<float>(sum),
                                   .normed = normed.mutable_data_ptr(),
                                   .means = mutable_data<float>(means),
                                   .scales = scales.mutable_data_ptr<float>()});
  return {sum, normed, means, scales};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_norm_backward(
    const Grid& grid, const at::Tensor& normed_gradient, const std::optional<at::Tensor>& sum_gradient,
    const at::Tensor& sum, const at::Tensor& weight, const std::optional<at::Tensor>& means, const at::Tensor& scales,
    at::ScalarType branch_type) {
  const at::Tensor kept = aligned(sum);
  const std::int64_t size = kept.size(-1), rows = kept.numel() / size;
  const at::Tensor incoming = aligned(normed_gradient), more = aligned(sum_gradient);
  const at::Tensor factors = aligned(weight), centers = aligned(means);
  const at::Tensor gradient = at::empty_like(sum);
  const bool is_fp32 = branch_type == at::kFloat;
  const at::Tensor branch = is_fp32 ? gradient : at::empty_like(sum, sum.options().dtype(branch_type));
  AddNormBackwardArguments given{.norm = centers.defined() ? Norm::layer : Norm::rms,
                                 .branch_type = element_of(branch_type),
                                 .normed_type = element_of(incoming.scalar_type()),
                                 .rows = rows,
                                 .size = size,
                                 .width = width_for(size),
                                 .normed_gradient = incoming.const_data_ptr(),
                                 .sum_gradient = data<float>(more),
                                 .sum = kept.const_data_ptr<float>(),
                                 .weight = factors.const_data_ptr<float>(),
                                 .means = data<float>(centers),
                                 .scales = scales.const_data_ptr<float>(),
                                 .gradient = gradient.mutable_data_ptr<float>(),
                                 .branch_gradient = is_fp32 ? nullptr : branch.mutable_data_ptr()};
  const std::int64_t blocks = std::min(rows, grid.most_blocks());
  const at::Tensor of_weight = floats({blocks, size}, sum);
  const at::Tensor of_bias = centers.defined() ? floats({blocks, size}, sum) : at::Tensor();
  given.weight_sums = of_weight.mutable_data_ptr<float>();
  given.bias_sums = mutable_data<float>(of_bias);
  grid.run(given);
  return {gradient, branch, sum_rows(of_weight), sum_rows(of_bias)};
}

at::Tensor bias_gelu(const Grid& grid, const at::Tensor& input, const std::optional<at::Tensor>& bias, Gelu form) {
  const std::int64_t size = input.size(-1);
  const at::Tensor values = aligned(input), shifts = aligned(bias);
  at::Tensor output = at::empty_like(values);
  grid.run(BiasGeluArguments{.form = form,
                             .type = element_of(values.scalar_type()),
                             .rows = values.numel() / size,
                             .size = size,
                             .width = width_for(size),
                             .input = values.const_data_ptr(),
                             .bias = data<float>(shifts),
                             .output = output.mutable_data_ptr()});
  return output;
}

std::tuple<at::Tensor, at::Tensor> bias_gelu_backward(const Grid& grid, const at::Tensor& output_gradient,
                                                      const at::Tensor& input, const std::optional<at::Tensor>& bias,
                                                      Gelu form) {
  const std::int64_t size = input.size(-1);
  const at::Tensor incoming = aligned(output_gradient), values = aligned(input), shifts = aligned(bias);
  const at::Tensor gradient = at::empty_like(values);
  BiasGeluArguments given{.form = form,
                          .type = element_of(values.scalar_type()),
                          .rows = values.numel() / size,
                          .size = size,
                          .width = width_for(size),
                          .input = values.const_data_ptr(),
                          .bias = data<float>(shifts),
                          .output_gradient = incoming.const_data_ptr(),
                          .input_gradient = gradient.mutable_data_ptr()};
  const at::Tensor sums =
      shifts.defined() ? floats({given.row_blocks(grid.most_blocks()), size}, values) : at::Tensor();
  given.bias_sums = mutable_data<float>(sums);
  grid.run(given);
  return {gradient, sum_rows(sums)};
}

at::Tensor swiglu(const Grid& grid, const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor gates = aligned(gate), ups = aligned(up);
  at::Tensor output = at::empty_like(gates);
  grid.run(SwigluArguments{.type = element_of(gates.scalar_type()),
                           .size = gates.numel(),
                           .width = width_for(gates.numel()),
                           .gate = gates.const_data_ptr(),
                           .up = ups.const_data_ptr(),
                           .output = output.mutable_data_ptr()});
  return output;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(const Grid& grid, const at::Tensor& output_gradient,
                                                   const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor incoming = aligned(output_gradient), gates = aligned(gate), ups = aligned(up);
  const at::Tensor of_gate = at::empty_like(gates), of_up = at::empty_like(ups);
  grid.run(SwigluArguments{.type = element_of(gates.scalar_type()),
                           .size = gates.numel(),
                           .width = width_for(gates.numel()),
                           .gate = gates.const_data_ptr(),
                           .up = ups.const_data_ptr(),
                           .output_gradient = incoming.const_data_ptr(),
                           .gate_gradient = of_gate.mutable_data_ptr(),
                           .up_gradient = of_up.mutable_data_ptr()});
  return {of_gate, of_up};
}

at::Tensor dropout(const Grid& grid, const at::Tensor& input, const DropRows& rows, double scale) {
  at::Tensor output = at::empty_like(input);
  grid.run(DropoutArguments{.rows = rows,
                            .type = element_of(input.scalar_type()),
                            .scale = static_cast<float>(scale),
                            .input = input.const_data_ptr(),
                            .output = output.mutable_data_ptr()});
  return output;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> quantize(const Grid& grid, const at::Tensor& input,
                                                        const at::Tensor& amax, at::ScalarType format) {
  const at::Tensor values = aligned(input);
  const std::int64_t rows = values.size(0), columns = values.size(1);
  const auto eight_bits = values.options().dtype(format);
  at::Tensor quantized = at::empty({rows, columns}, eight_bits), transposed = at::empty({columns, rows}, eight_bits);
  at::Tensor inverse_scale = at::empty({}, values.options().dtype(at::kFloat));
  grid.run(QuantizeArguments{.type = element_of(values.scalar_type()),
                             .format = format == at::kFloat8_e4m3fn ? Float8::e4m3 : Float8::e5m2,
                             .rows = rows,
                             .columns = columns,
                             .input = values.const_data_ptr(),
                             .amax = amax.const_data_ptr<float>(),
                             .quantized = quantized.mutable_data_ptr(),
                             .transposed = transposed.mutable_data_ptr(),
                             .inverse_scale = inverse_scale.mutable_data_ptr<float>()});
  return {quantized, transposed, inverse_scale};
}

AdamCoefficients coefficients_of(const AdamRule& rule, double smoothing) {
  return {.decay = static_cast<float>(rule.is_decoupled ? 0 : rule.weight_decay),
          .beta1 = static_cast<float>(rule.beta1),
          .beta2 = static_cast<float>(rule.beta2),
          .rest1 = static_cast<float>(1 - rule.beta1),
          .rest2 = static_cast<float>(1 - rule.beta2),
          .epsilon = static_cast<float>(rule.epsilon),
          .smoothing = static_cast<float>(smoothing)};
}

AdamTensor adam_tensor(at::TensorList parameters, at::TensorList gradients, at::TensorList averages,
                       at::TensorList squares, at::TensorList largest, at::TensorList smoothed, at::TensorList steps,
                       std::size_t index) {
  return {.size = parameters[index].numel(),
          .parameter = parameters[index].mutable_data_ptr<float>(),
          .gradient = gradients[index].const_data_ptr<float>(),
          .average = averages[index].mutable_data_ptr<float>(),
          .square = squares[index].mutable_data_ptr<float>(),
          .largest = largest.empty() ? nullptr : largest[index].mutable_data_ptr<float>(),
          .smoothed = smoothed.empty() ? nullptr : smoothed[index].mutable_data_ptr<float>(),
          .step = steps[index].const_data_ptr<float>()};
}

void adam(const Grid& grid, at::TensorList parameters, at::TensorList gradients, at::TensorList averages,
          at::TensorList squares, at::TensorList largest, at::TensorList smoothed, at::TensorList steps,
          const AdamRule& rule, double smoothing, const at::Tensor& factor, const at::Tensor& found_inf) {
  const AdamArguments none{.lr = rule.lr,
                           .decoupled_decay = rule.is_decoupled ? rule.weight_decay : 0,
                           .device_lr = data<double>(rule.device_lr),
                           .log_beta1 = static_cast<float>(std::log(rule.beta1)),
                           .log_beta2 = static_cast<float>(std::log(rule.beta2)),
                           .same = coefficients_of(rule, smoothing),
                           .factor = data<float>(factor),
                           .found_inf = data<float>(found_inf)};
  const auto is_aligned = [](const AdamTensor& tensor) {
    const void* const addresses[] = {tensor.parameter, tensor.gradient, tensor.average,
                                     tensor.square,    tensor.largest,  tensor.smoothed};
    return std::ranges::all_of(addresses, [](const void* address) {
      return reinterpret_cast<std::uintptr_t>(address) % (kWidth * sizeof(float)) == 0;
    });
  };
  // Tensors that aren't aligned get a start of their own.
  for (const bool aligned_ones : {true, false}) {
    AdamArguments given = none;
    given.width = aligned_ones ? kWidth : 1;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const AdamTensor tensor = adam_tensor(parameters, gradients, averages, squares, largest, smoothed, steps, i);
      if (tensor.size == 0 || is_aligned(tensor) != aligned_ones) continue;
      given.add(tensor);
      if (given.count < AdamArguments::kMostTensors) continue;
      grid.run(given);
      given = none;
      given.width = aligned_ones ? kWidth : 1;
    }
    if (given.count > 0) grid.run(given);
  }
}

}  // namespace trainctl::kernels::device
