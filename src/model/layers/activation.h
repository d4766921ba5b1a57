// Activation functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/relu.h>

namespace trainctl::model {

/// For outputs of convolutions, normalisations and pools, which autograd doesn't need again.
inline at::Tensor relu_in_place(at::Tensor value) {
  return at::relu_(value);
}

}  // namespace trainctl::model
