#include "train/loop/device_feed.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "runtime/fake_tensor.h"
#include "runtime/span.h"

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

DeviceFeed::DeviceFeed(c10::Device device, at::MemoryFormat image_format,
                       const std::optional<dataset::PixelScaling>& to_normalize)
    : device_(device), image_format_(image_format) {
  if (!to_normalize) return;
  const auto by_channel = [&](const std::vector<float>& values) {
    return at::tensor(values, at::kFloat).reshape({1, -1, 1, 1}).to(device);
  };
  scale_ = by_channel(to_normalize->scale);
  bias_ = by_channel(to_normalize->bias);
}

dataset::Batch DeviceFeed::operator()(dataset::Batch host) {
  const runtime::Span span("to_device");
  const bool is_image = host.inputs.dim() == 4;
  if (device_.is_cpu()) {
    if (is_image) host.inputs = finished(host.inputs);
    return host;
  }
  release_copied();
  dataset::Batch moved = host;
  for (at::Tensor* tensor : tensors_of(moved))
    if (tensor->defined()) *tensor = tensor->to(device_, /*non_blocking=*/true);
  if (is_image) moved.inputs = finished(moved.inputs);
  if (runtime::is_fake(moved.inputs)) return moved;
  c10::Event copied(device_.type());
  copied.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  in_flight_.emplace_back(std::move(host), std::move(copied));
  return moved;
}

at::Tensor DeviceFeed::finished(const at::Tensor& images) const {
  const at::Tensor laid_out = images.contiguous(image_format_);
  // A product and a sum, each rounded, as in the host's Normalize.
  return scale_.defined() ? at::mul(laid_out, scale_).add_(bias_) : laid_out;
}

void DeviceFeed::release_copied() {
  while (!in_flight_.empty() && in_flight_.front().second.query()) in_flight_.pop_front();
}

std::vector<at::Tensor*> tensors_of(dataset::Batch& batch) {
  return {&batch.inputs,    &batch.targets,          &batch.token_types,   &batch.key_mask,
          &batch.documents, &batch.target_positions, &batch.decoder_inputs};
}

dataset::Batch placeholder(const dataset::Batch& empty) {
  dataset::Batch batch{.inputs = two_like(empty.inputs), .targets = two_like(empty.targets)};
  if (empty.decoder_inputs.defined()) batch.decoder_inputs = two_like(empty.decoder_inputs);
  return batch;
}

}  // namespace trainctl::train
