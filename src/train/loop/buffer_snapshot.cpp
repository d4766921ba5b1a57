#include "train/loop/buffer_snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/where.h>

namespace trainctl::train {

BufferSnapshot::BufferSnapshot(model::Model& model, Keep keep) {
  if (keep == Keep::nothing) return;
  buffers_ = model::named_buffers(model);
  copies_.reserve(buffers_.size());
  for (const model::NamedTensor& buffer : buffers_) copies_.push_back(buffer.tensor.clone());
}

void BufferSnapshot::restore_if(const at::Tensor& skipped) const {
  if (buffers_.empty()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor put_back = skipped.reshape({}).to(at::kBool);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i].tensor.copy_(at::where(put_back.to(copies_[i].device()), copies_[i], buffers_[i].tensor));
}

}  // namespace trainctl::train
