#include "model/layers/embedding.h"

#include <ATen/ops/embedding.h>

namespace trainctl::model {

Embedding::Embedding(std::int64_t num_rows, std::int64_t size, Init init, std::optional<std::int64_t> padding_id)
    : weight_(parameter("weight", {num_rows, size}, padding_id ? init.with_zero_row(*padding_id) : init)),
      padding_id_(padding_id.value_or(-1)) {}

at::Tensor Embedding::compute(const at::Tensor& ids) {
  return at::embedding(weight_, ids, padding_id_);
}

}  // namespace trainctl::model
