#include "model/context_ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

namespace trainctl::model {

at::Tensor ContextRanks::places(std::int64_t length, c10::Device device) const {
  const std::int64_t chunk = length / num_chunks();
  const auto ids = at::TensorOptions(device).dtype(at::kLong);
  const auto [first, last] = chunks_of(rank);
  return at::cat(
      {at::arange(first * chunk, (first + 1) * chunk, ids), at::arange(last * chunk, (last + 1) * chunk, ids)});
}

runtime::ElementRuns ContextRanks::runs_of(const at::Tensor& part) const {
  const std::int64_t chunk = part.numel() / part.size(0) / 2;  // elements
  const auto [first, last] = chunks_of(rank);
  return {.length = chunk, .distance = (last - first) * chunk, .first = first * chunk};
}

}  // namespace trainctl::model
