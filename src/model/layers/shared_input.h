// Layers that read the same input.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/layer.h"

namespace trainctl::model {

/// A layer override that can do a part of its work once for several layers.
class SharesInput {
 public:
  virtual ~SharesInput() = default;
  /// Returns the outputs of these layers' overrides, the first of which is this one. Returns nothing if the overrides
  /// must compute one by one.
  virtual std::vector<at::Tensor> compute_each(const std::vector<UnaryLayer*>& layers, const at::Tensor& input) = 0;
};

/// forward() of each, in this order. Plain products sum their gradients of the input as kernels::linear_products()
/// does.
std::vector<at::Tensor> forward_each(const std::vector<UnaryLayer*>& layers, const at::Tensor& input);

}  // namespace trainctl::model
