// A step's work for the device, recorded once and given again at every step whose batches have the same shapes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "runtime/device_graph.h"
#include "task/task.h"
#include "train/monitor/step_result.h"
#include "train/run/run.h"

namespace trainctl::train {

/// PyTorch's whole-network capture (https://docs.pytorch.org/docs/stable/notes/cuda.html#whole-network-capture), with
/// clipping, loss scaling and the update in it.
class StepGraph {
 public:
  /// Forward and backward passes and the update of a step. `count`: its targets, at least 1, as a double [] on the
  /// device. Leaves the tensors of `result`.
  using Compute = std::function<void(const std::vector<task::MicroBatch>& micro_batches, const at::Tensor& count,
                                     StepResult& result)>;

  /// Throws Error if steps of this run can't be recorded. `graph`: null for the device's own.
  StepGraph(Run& run, std::unique_ptr<runtime::DeviceGraph> graph);

  /// Computes a step whose counts are in `result`, by the recording. Calls `compute` where the step is one of the
  /// first, or has other shapes. Throws Error if that never ends, or if a step waits for the device.
  void operator()(const std::vector<task::MicroBatch>& micro_batches, double lr, const Compute& compute,
                  StepResult& result);

 private:
  void record(const std::vector<task::MicroBatch>& micro_batches, const Compute& compute, const StepResult& result);

  std::unique_ptr<runtime::DeviceGraph> graph_;
  at::Tensor lr_;                         // double []
  at::Tensor count_;                      // double []
  at::Tensor outputs_;                    // double [4]: the tensors of the result
  std::vector<task::MicroBatch> inputs_;  // those of the recording; before it, of the last step
  int steps_without_ = 0;                 // that the recording didn't make, since the last that it made
  bool is_recorded_ = false;
};

/// Throws Error if this thread's SampleRandomness has drawn: the numbers' key is the host's, and would be repeated.
void refuse_random_numbers();

}  // namespace trainctl::train
