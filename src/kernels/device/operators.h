// The kernels of this folder as functions of tensors: memory for the results, and what a kernel is told.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "kernels/adam.h"
#include "kernels/device/activation.h"
#include "kernels/device/adam.h"
#include "kernels/device/add_norm.h"
#include "kernels/device/dropout.h"
#include "kernels/device/float8.h"
#include "kernels/device/grid.h"

namespace trainctl::kernels::device {

/// Whether a kernel takes the tensor: fp32, bf16 or fp16.
bool has_kernels_for(const at::Tensor& tensor);

/// Columns that a norm's kernels take; others are left to LibTorch's operators.
bool fits_norm(const at::Tensor& input);

/// Returns the sum (undefined without a residual), normalized, the means (undefined for rms) and the scales.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_norm(const Grid& grid,
                                                                    const std::optional<at::Tensor>& residual,
                                                                    const at::Tensor& branch, const at::Tensor& weight,
                                                                    const std::optional<at::Tensor>& bias,
                                                                    double epsilon, at::ScalarType normed_type);

/// Returns the gradients of the residual, the branch (the same tensor where it is fp32), the weight and the bias
/// (undefined for rms).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_norm_backward(
    const Grid& grid, const at::Tensor& normed_gradient, const std::optional<at::Tensor>& sum_gradient,
    const at::Tensor& sum, const at::Tensor& weight, const std::optional<at::Tensor>& means, const at::Tensor& scales,
    at::ScalarType branch_type);

/// Returns gelu(input + bias).
at::Tensor bias_gelu(const Grid& grid, const at::Tensor& input, const std::optional<at::Tensor>& bias, Gelu form);

/// Returns the gradients of the input and the bias (undefined without one).
std::tuple<at::Tensor, at::Tensor> bias_gelu_backward(const Grid& grid, const at::Tensor& output_gradient,
                                                      const at::Tensor& input, const std::optional<at::Tensor>& bias,
                                                      Gelu form);

/// Returns silu(gate) · up.
at::Tensor swiglu(const Grid& grid, const at::Tensor& gate, const at::Tensor& up);

/// Returns the gradients of gate and up.
std::tuple<at::Tensor, at::Tensor> swiglu_backward(const Grid& grid, const at::Tensor& output_gradient,
                                                   const at::Tensor& gate, const at::Tensor& up);

/// Zeroes elements of a tensor that is dense in memory, and multiplies the others by `scale`.
at::Tensor dropout(const Grid& grid, const at::Tensor& input, const DropRows& rows, double scale);

/// Returns the tensor [rows, columns], multiples of 4, in e4m3 or e5m2, its transpose, and 1 / scale. `amax` (float
/// []): its largest magnitude.
std::tuple<at::Tensor, at::Tensor, at::Tensor> quantize(const Grid& grid, const at::Tensor& input,
                                                        const at::Tensor& amax, at::ScalarType format);

/// The coefficients that a rule gives for all tensors, steps and learning rates.
AdamCoefficients coefficients_of(const AdamRule& rule, double smoothing);
/// The parameter of this number, with what belongs to it.
AdamTensor adam_tensor(at::TensorList parameters, at::TensorList gradients, at::TensorList averages,
                       at::TensorList squares, at::TensorList largest, at::TensorList smoothed, at::TensorList steps,
                       std::size_t index);

/// See update_by_adam().
void adam(const Grid& grid, at::TensorList parameters, at::TensorList gradients, at::TensorList averages,
          at::TensorList squares, at::TensorList largest, at::TensorList smoothed, at::TensorList steps,
          const AdamRule& rule, double smoothing, const at::Tensor& factor, const at::Tensor& found_inf);

}  // namespace trainctl::kernels::device
