// The result of one optimizer update.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "train/monitor/throughput.h"

namespace trainctl::train {

/// What one update left behind, over all ranks, on the device: nothing here waits for it.
struct StepResult {
  at::Tensor loss;     // double []: sum over the step's targets
  double count = 0;    // targets: samples or their weight, or tokens
  double nominal = 0;  // what the gradients were divided by, until the count was known
  Work work;
  std::vector<std::int64_t> samples;  // of this rank, by their indices in the training set
  at::Tensor grad_norm;               // float []; undefined when it wasn't measured
  at::Tensor non_finite;  // float [1]: 1 when the loss, or a gradient that no loss scale explains, isn't finite
  at::Tensor skipped;     // float [1]: 1 when the update was left out: non_finite, an fp16 overflow, or no target
  double data_wait_ms = 0;
  double copy_ms = 0;         // handing batches to the device
  int signal = 0;             // that some rank was sent, so that all stop at the same step
  bool is_abandoned = false;  // before its last micro-batch, for the signal: nothing has changed
};

}  // namespace trainctl::train
