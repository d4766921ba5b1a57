// Matrix products by the faster of the two libraries that LibTorch carries.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace trainctl {

/// input Wᵀ + bias, [..., in] -> [..., out], as at::linear. The weight [out, in] may lie transposed in memory.
at::Tensor linear_product(const at::Tensor& input, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias = {});

/// left · right of [N, K] and [K, M], outside autograd.
at::Tensor matrix_product(const at::Tensor& left, const at::Tensor& right);
/// sum += left · right, outside autograd. `sum` [N, M] is contiguous and of the factors' type or a wider one.
void add_matrix_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right);

}  // namespace trainctl
