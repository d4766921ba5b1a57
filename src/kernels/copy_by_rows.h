// A copy of a matrix in the layout that libraries of matrix products take.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// Returns a contiguous copy of a matrix [N, K] of floats on the CPU whose columns are contiguous, outside autograd.
/// LibTorch's own copy is slower: decision 0066.
at::Tensor copy_by_rows(const at::Tensor& matrix);

}  // namespace trainctl::kernels
