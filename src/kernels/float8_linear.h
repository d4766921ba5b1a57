// Linear layers whose matrix products are in eight bits (https://arxiv.org/abs/2209.05433).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace trainctl::kernels {

/// A scope, `const Float8Products eight_bits(true);`, in which linear layers of this thread multiply in eight bits, or
/// don't. The state is thread-local, as autocast's is.
class Float8Products {
 public:
  explicit Float8Products(bool are_wanted);
  Float8Products(const Float8Products&) = delete;
  Float8Products& operator=(const Float8Products&) = delete;
  ~Float8Products();

  static bool are_wanted();

 private:
  bool outer_;
};

/// Whether the matrix, [out, in] or [in, out], suits some input: its sizes are multiples of 16.
bool is_float8_matrix(const at::Tensor& weight);

/// Whether the shapes suit: all three extents of the products are multiples of 16, as cuBLAS wants them.
bool suits_float8(const at::Tensor& input, const at::Tensor& weight);

/// Returns input Wᵀ + bias in bf16: [..., in] and [out, in] -> [..., out]. Each factor of a product has one scale, from
/// its largest magnitude now. Activations and weights are e4m3, gradients e5m2. The weight's gradient is fp32. For the
/// backward pass the quantized factors are kept, a quarter of fp32's memory. Sums are those of the device's product; on
/// a CPU LibTorch multiplies the same numbers in a wider type.
at::Tensor float8_linear(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias);

/// Returns the tensor [rows, columns] in e4m3 or e5m2, its transpose, and 1 / scale (float []).
std::tuple<at::Tensor, at::Tensor, at::Tensor> quantize_float8(const at::Tensor& input, at::ScalarType format);

}  // namespace trainctl::kernels
