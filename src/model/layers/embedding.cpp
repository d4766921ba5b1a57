#include "model/layers/embedding.h"

#include <ATen/ops/embedding.h>

namespace trainctl::model {

Embedding::Embedding(std::int64_t num_rows, std::int64_t size, Init init, std::optional<std::int64_t> padding_idx)
    : weight_(parameter("weight", {num_rows, size}, padding_idx ? init.with_zero_row(*padding_idx) : init)),
      padding_idx_(padding_idx.value_or(-1)) {}

void Embedding::split_rows(const TensorRanksPtr& ranks) {
  ranks_ = ranks;
  rows_ = range_of(weight_.size(0), *ranks);
  padding_idx_ =
      padding_idx_ >= rows_.begin && padding_idx_ < rows_.begin + rows_.size ? padding_idx_ - rows_.begin : -1;
  keep_part(weight_, 0, *ranks);
}

at::Tensor Embedding::compute(const at::Tensor& ids) {
  if (ranks_ == nullptr) return at::embedding(weight_, ids, padding_idx_);
  const at::Tensor own = ids.ge(rows_.begin).logical_and_(ids.lt(rows_.begin + rows_.size));
  const at::Tensor rows = ids.sub(rows_.begin).clamp_(0, rows_.size - 1);
  return sum_of_parts(at::embedding(weight_, rows, padding_idx_).mul(own.unsqueeze(-1)), ranks_);
}

}  // namespace trainctl::model
