#include "task/target_rows.h"

#include <ATen/ops/index_select.h>

namespace trainctl::task {

TargetRows only_target_rows(const at::Tensor& values, const dataset::Batch& batch) {
  const at::Tensor rows = values.flatten(0, 1);
  const at::Tensor targets = batch.targets.flatten();
  if (!batch.target_positions.defined()) return {.hidden = rows, .targets = targets};
  return {.hidden = rows.index_select(0, batch.target_positions),
          .targets = targets.index_select(0, batch.target_positions)};
}

TargetRows target_rows(const at::Tensor& values, const dataset::Batch& batch) {
  // Copying nearly all rows costs more than computing the few ignored ones.
  if (batch.target_positions.defined() && 2 * batch.target_positions.size(0) <= batch.targets.numel())
    return only_target_rows(values, batch);
  return {.hidden = values.flatten(0, 1), .targets = batch.targets.flatten()};
}

}  // namespace trainctl::task
