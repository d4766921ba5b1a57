// Batches from the host to the device the model is on.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <deque>
#include <utility>

#include "dataset/dataset.h"

namespace trainctl {

/// Moves batches to the device in the layout the model wants. Page-locked batches are copied without waiting; their
/// buffers are held until the copy is done.
class DeviceFeed {
 public:
  DeviceFeed(c10::Device device, at::MemoryFormat image_format) : device_(device), image_format_(image_format) {}
  Batch operator()(Batch host);

 private:
  void release_copied();

  c10::Device device_;
  at::MemoryFormat image_format_;
  std::deque<std::pair<Batch, c10::Event>> in_flight_;
};

}  // namespace trainctl
