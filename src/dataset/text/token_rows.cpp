#include "dataset/text/token_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <vector>

namespace trainctl {

at::Tensor rows_view(void* first, std::int64_t count, std::int64_t width, std::int64_t stride,
                     const std::function<void(void*)>& release) {
  return at::from_blob(first, {count, width}, {stride, 1}, release, at::TensorOptions(at::kLong));
}

at::Tensor positions_of_targets(const at::Tensor& targets) {
  const at::Tensor flat = targets.contiguous();
  const std::span<const std::int64_t> values(flat.const_data_ptr<std::int64_t>(),
                                             static_cast<std::size_t>(flat.numel()));
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] >= 0) positions.push_back(static_cast<std::int64_t>(i));
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(positions.size())}, at::TensorOptions(at::kLong));
  std::copy(positions.begin(), positions.end(), tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

}  // namespace trainctl
