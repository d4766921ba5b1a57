#include "train/loop/own_tokens.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "model/model.h"
#include "runtime/fake_tensor.h"

namespace trainctl::train {
namespace {

constexpr std::int64_t kNoTarget = -100;

/// Adds padding after each row, so that there are `length` tokens: no token before it sees it.
void pad(dataset::Batch& batch, std::int64_t length) {
  const std::int64_t added = length - batch.inputs.size(1);
  if (added == 0) return;
  const auto grow = [&](at::Tensor& rows, std::int64_t value) {
    if (rows.defined()) rows = at::constant_pad_nd(rows, {0, added}, value);
  };
  grow(batch.inputs, 0);
  grow(batch.targets, kNoTarget);
  grow(batch.token_types, 0);
  grow(batch.key_mask, 0);
  if (batch.documents.defined()) {
    const at::Tensor last = batch.documents.narrow(1, batch.documents.size(1) - 1, 1);
    batch.documents = at::cat({batch.documents, last.add(1).expand({-1, added})}, 1);
  }
  batch.target_positions = at::Tensor();
}

}  // namespace

dataset::Batch own_tokens(dataset::Batch batch, comm::DeviceMesh& mesh) {
  const model::ContextRanks ranks{.rank = mesh.place(comm::Axis::context), .size = mesh.size(comm::Axis::context)};
  if (ranks.size == 1) return batch;
  const std::int64_t chunks = ranks.num_chunks();
  const std::int64_t length = (batch.inputs.size(1) + chunks - 1) / chunks * chunks;
  const bool has_gaps = batch.target_positions.defined() || length != batch.inputs.size(1);
  pad(batch, length);
  const at::Tensor places = ranks.places(length, batch.inputs.device());
  for (at::Tensor* rows : {&batch.inputs, &batch.targets, &batch.token_types})
    if (rows->defined()) *rows = rows->index_select(1, places);
  if (runtime::is_fake(batch.targets) && batch.target_positions.defined())  // where they are isn't known: at most
    batch.target_positions =
        batch.target_positions.narrow(0, 0, std::min(batch.target_positions.size(0), batch.targets.numel()));
  else if (has_gaps)
    batch.target_positions = batch.targets.flatten().ne(kNoTarget).nonzero().flatten();
  return batch;
}

}  // namespace trainctl::train
