// Writing sequences of tokens into batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "dataset/sample_writer.h"

namespace trainctl {

/// int64 [count, width]: the first `width` values of rows that lie `stride` values apart, on memory that is lent.
at::Tensor rows_view(void* first, std::int64_t count, std::int64_t width, std::int64_t stride,
                     const std::function<void(void*)>& release);

/// Which of targets [B, T], counted through, aren't -100: int64 [N].
at::Tensor positions_of_targets(const at::Tensor& targets);

}  // namespace trainctl
