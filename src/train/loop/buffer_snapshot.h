// A skipped update must leave no trace, in BatchNorm's running statistics either.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/model.h"

namespace trainctl::train {

enum class Keep { nothing, buffers };

/// Copies a model's buffers before a step, and puts them back where the step turned out to be skipped.
class BufferSnapshot {
 public:
  BufferSnapshot(model::Model& model, Keep keep);
  /// `skipped`: float [1], 1 to put back, 0 to leave. Decided on the device.
  void restore_where(const at::Tensor& skipped) const;

 private:
  std::vector<model::NamedTensor> buffers_;
  std::vector<at::Tensor> copies_;
};

}  // namespace trainctl::train
