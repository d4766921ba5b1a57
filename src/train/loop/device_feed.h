// Batches on the device of the model: copied from the host, or made up for a rank that has no sample left.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "dataset/dataset.h"

namespace trainctl::train {

/// Moves batches to the device in the layout the model wants, and normalises there what comes as bytes. Page-locked
/// batches are copied without waiting; their buffers are held until the copy is done.
class DeviceFeed {
 public:
  /// `to_normalize`: the loader's (SampleSpec).
  DeviceFeed(c10::Device device, at::MemoryFormat image_format,
             const std::optional<dataset::PixelScaling>& to_normalize = {});
  dataset::Batch operator()(dataset::Batch host);

 private:
  /// What the model is given, of images on the device.
  at::Tensor finished(const at::Tensor& images) const;
  void release_copied();

  c10::Device device_;
  at::MemoryFormat image_format_;
  at::Tensor scale_;  // [1, C, 1, 1] on the device; undefined: images come as floats
  at::Tensor bias_;
  std::deque<std::pair<dataset::Batch, c10::Event>> in_flight_;
};

/// The tensors of a batch, whether or not they are defined.
std::vector<at::Tensor*> tensors_of(dataset::Batch& batch);

/// Returns two samples of zeros, otherwise like the empty batch: BatchNorm can't normalise over one.
dataset::Batch placeholder(const dataset::Batch& empty);

}  // namespace trainctl::train
