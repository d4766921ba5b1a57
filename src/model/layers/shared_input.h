// Layers that read the same input.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/layer.h"

namespace trainctl::model {

/// Of a stand-in that can do a part of its work once for several layers.
class SharesInput {
 public:
  virtual ~SharesInput() = default;
  /// What each of these layers' stand-ins, the first of which is this one, makes of the input; nothing where they have
  /// to do that one by one.
  virtual std::vector<at::Tensor> compute_each(const std::vector<UnaryLayer*>& layers, const at::Tensor& input) = 0;
};

/// forward() of each, in this order.
std::vector<at::Tensor> forward_each(const std::vector<UnaryLayer*>& layers, const at::Tensor& input);

}  // namespace trainctl::model
