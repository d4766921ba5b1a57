// Backward passes in two halves: first the gradient of the input, which other ranks wait for; the gradients of the
// matrices later (zero bubble, https://arxiv.org/abs/2401.10241).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/model.h"

namespace trainctl::model {

class DeferredWeightGradients {
 public:
  /// The matrices of the blocks' layers, but not those of a vocabulary head, whose loss makes both at once. Layers that
  /// already have an override stay as they are. The model lives longer than the result is used.
  explicit DeferredWeightGradients(Model& model);
  DeferredWeightGradients(const DeferredWeightGradients&) = delete;
  DeferredWeightGradients& operator=(const DeferredWeightGradients&) = delete;

  /// What the backward passes since the last call left to do: each call adds the gradients of one layer.
  using Work = std::vector<std::function<void()>>;
  Work take();

 private:
  struct Queue;
  class Override;
  struct Product;

  std::shared_ptr<Queue> queue_;
};

}  // namespace trainctl::model
