// The positions of a batch of sequences that have a target.
#pragma once

#include <ATen/core/Tensor.h>

#include "dataset/dataset.h"

namespace trainctl::task {

struct TargetRows {
  at::Tensor hidden;   // [N, D]
  at::Tensor targets;  // int64 [N]; -100 where there is none
};

/// Of values [B, T, D]. Where most positions have no target, only those that have one.
TargetRows target_rows(const at::Tensor& values, const dataset::Batch& batch);

/// Of values [B, T, D]: exactly the positions with a target, on the device.
TargetRows only_target_rows(const at::Tensor& values, const dataset::Batch& batch);

}  // namespace trainctl::task
