#include "train/loop/placeholder.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

namespace trainctl::train {
namespace {

at::Tensor two_like(const at::Tensor& none) {
  std::vector<std::int64_t> shape = none.sizes().vec();
  for (std::int64_t& size : shape) size = std::max<std::int64_t>(size, 1);
  shape[0] = 2;
  const at::Tensor zeros = at::zeros(shape, none.options());
  return none.dim() == 4 ? zeros.contiguous(none.suggest_memory_format()) : zeros;
}

}  // namespace

dataset::Batch placeholder(const dataset::Batch& empty) {
  return {.inputs = two_like(empty.inputs), .targets = two_like(empty.targets)};
}

}  // namespace trainctl::train
