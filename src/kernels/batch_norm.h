// Batch normalization (https://arxiv.org/abs/1502.03167) with what follows it in residual networks, in one pass over
// memory for the statistics and one for the rest.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace trainctl::kernels {

/// Whether batch_norm() takes it: floats on the CPU, [B, C, H, W] in channels_last or [B, C], channels in whole
/// vectors.
bool suits_batch_norm(const at::Tensor& input, const at::Tensor& weight);

/// What is done to the normalized values.
struct AfterNorm {
  std::optional<at::Tensor> add{};  // of the input's shape
  bool relu = false;                // after it
};

struct BatchNormResult {
  at::Tensor output;
  at::Tensor mean;      // [C]
  at::Tensor variance;  // [C], unbiased
};

/// Normalizes by the batch, with autograd through `output` alone. More than one value per channel. Means and gradients
/// are summed in double precision over a fixed number of slices, so that no bit depends on the number of threads.
BatchNormResult batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, double eps,
                           const AfterNorm& after = {});

}  // namespace trainctl::kernels
