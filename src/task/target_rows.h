// The positions of a batch of sequences that have a target.
#pragma once

#include <ATen/core/Tensor.h>

#include "dataset/dataset.h"

namespace trainctl::task {

struct TargetRows {
  at::Tensor hidden;   // [N, D]
  at::Tensor targets;  // int64 [N]; -100 where there is none
};

/// Returns the rows of values [B, T, D]. If at most half of the positions have a target, only those are returned.
TargetRows target_rows(const at::Tensor& values, const dataset::Batch& batch);

/// Returns exactly the rows of values [B, T, D] with a target, on the device; all rows if batch.target_positions is
/// undefined.
TargetRows only_target_rows(const at::Tensor& values, const dataset::Batch& batch);

}  // namespace trainctl::task
