#include "model/layers/embedding.h"

#include <ATen/ops/embedding.h>

namespace trainctl::model {

Embedding::Embedding(std::int64_t num_rows, std::int64_t size, Init init, std::optional<std::int64_t> padding_idx)
    : weight_(parameter("weight", {num_rows, size}, padding_idx ? init.with_zero_row(*padding_idx) : init)),
      padding_idx_(padding_idx.value_or(-1)) {}

at::Tensor Embedding::compute(const at::Tensor& ids) {
  return at::embedding(weight_, ids, padding_idx_);
}

}  // namespace trainctl::model
