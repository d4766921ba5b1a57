// Convolutions of 3 × 3 pixels with a third of the multiplications: Winograd's F(2 × 2, 3 × 3),
// https://arxiv.org/abs/1509.09308 (Lavin and Gray, section 4.1).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace trainctl::kernels {

/// Whether convolutions that it suits are computed so, or none.
enum class Winograd { where_it_suits, never };

/// Whether winograd_convolution() takes these, and is the faster for it. They are floats on the CPU in channels_last,
/// input [B, C, H, W] and weight [O, C, 3, 3], with channels in whole vectors. It is a rule of shapes, so that runs
/// repeat to the bit.
bool suits_winograd(const at::Tensor& input, const at::Tensor& weight);

/// Does what at::conv2d(input, weight, bias) of stride 1 and padding 1 does, with autograd: [B, O, H, W] in
/// channels_last. `bias` is [O]. The output and the input's gradient don't depend on the number of threads. Each thread
/// sums a part of the weight's gradient, so the last bits of that do.
at::Tensor winograd_convolution(const at::Tensor& input, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias = {});

}  // namespace trainctl::kernels
