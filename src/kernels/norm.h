// Layer and RMS normalization over the last dimension, with the residual connection before it.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// Layer normalization (https://arxiv.org/abs/1607.06450), or without a bias root-mean-square normalization
/// (https://arxiv.org/abs/1910.07467).
struct NormParameters {
  at::Tensor weight;  // [D]
  at::Tensor bias;    // [D]; undefined: rms
  double epsilon = 0;
};

/// Returns the normalized rows of [..., D].
at::Tensor norm(const at::Tensor& input, const NormParameters& parameters);

struct NormedSum {
  at::Tensor sum;
  at::Tensor normed;
};

/// What becomes of a normalized sum in mixed precision. Products take it in the branch's 16 bits, which saves a
/// conversion. A stream of residuals stays fp32.
enum class NormedFor { products, residuals };

/// Returns residual + branch, and that normalized: [..., D] each. The order of all additions is fixed, on a GPU by its
/// number of processors, on a CPU by nothing.
NormedSum add_norm(const at::Tensor& residual, const at::Tensor& branch, const NormParameters& parameters,
                   NormedFor use);

}  // namespace trainctl::kernels
