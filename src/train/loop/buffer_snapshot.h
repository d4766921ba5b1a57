// A model's buffers as they were before a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/model.h"

namespace trainctl::train {

/// A copy of the model's buffers, so that a skipped update leaves no trace in BatchNorm's running statistics.
class BufferSnapshot {
 public:
  enum class Keep { nothing, buffers };

  BufferSnapshot(model::Model& model, Keep keep);
  /// Restores the buffers if `skipped` (float [1]) is 1. The device decides.
  void restore_if(const at::Tensor& skipped) const;

 private:
  std::vector<model::NamedTensor> buffers_;
  std::vector<at::Tensor> copies_;
};

}  // namespace trainctl::train
