#include "train/device_feed.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/span.h"

namespace trainctl {

Batch DeviceFeed::operator()(Batch host) {
  const Span span("to_device");
  const bool is_image = host.inputs.dim() == 4;
  if (device_.is_cpu()) {
    if (is_image) host.inputs = host.inputs.contiguous(image_format_);
    return host;
  }
  release_copied();
  Batch moved = host;
  for (at::Tensor* tensor :
       {&moved.inputs, &moved.targets, &moved.token_types, &moved.key_mask, &moved.documents, &moved.target_positions})
    if (tensor->defined()) *tensor = tensor->to(device_, /*non_blocking=*/true);
  if (is_image) moved.inputs = moved.inputs.contiguous(image_format_);
  c10::Event copied(device_.type());
  copied.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  in_flight_.emplace_back(std::move(host), std::move(copied));
  return moved;
}

void DeviceFeed::release_copied() {
  while (!in_flight_.empty() && in_flight_.front().second.query()) in_flight_.pop_front();
}

}  // namespace trainctl
