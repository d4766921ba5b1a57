#include "dataset/collate/token_rows.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <vector>

namespace trainctl::dataset {

void pack_rows(const SampleRows& rows, std::span<const RowPart> parts) {
  if (parts.size() == 1) {  // a row never moves over one that is still to come
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t* const from = rows.values + row * rows.stride + parts[0].begin;
      std::copy(from, from + parts[0].width, rows.values + row * parts[0].width);
    }
    return;
  }
  const std::vector<std::int64_t> copy(rows.values, rows.values + rows.count * rows.stride);
  std::int64_t* to = rows.values;
  for (const RowPart& part : parts)
    for (std::int64_t row = 0; row < rows.count; ++row)
      to = std::copy_n(copy.begin() + row * rows.stride + part.begin, part.width, to);
}

at::Tensor BatchMemory::take(at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor tensor = at::from_blob(next_, sizes, release_, at::TensorOptions(type));
  next_ += tensor.nbytes();
  return tensor;
}

at::Tensor BatchMemory::take_target_positions(const at::Tensor& targets) {
  const std::span<const std::int64_t> values(targets.const_data_ptr<std::int64_t>(),
                                             static_cast<std::size_t>(targets.numel()));
  auto* const positions = reinterpret_cast<std::int64_t*>(next_);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] >= 0) positions[count++] = static_cast<std::int64_t>(i);
  return take({count}, at::kLong);
}

at::Tensor BatchMemory::take_key_mask(std::span<const std::int64_t> lengths, std::int64_t width) {
  auto* mask = reinterpret_cast<bool*>(next_);
  for (const std::int64_t length : lengths)
    for (std::int64_t t = 0; t < width; ++t) *mask++ = t < length;
  return take({static_cast<std::int64_t>(lengths.size()), width}, at::kBool);
}

}  // namespace trainctl::dataset
