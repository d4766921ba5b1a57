// Model FLOPs utilization (PaLM, https://arxiv.org/abs/2204.02311, appendix B): the floating-point operations that the
// network needs, against what the devices attain in large matrix products.
#pragma once

#include "train/monitor/throughput.h"
#include "train/run/run.h"

namespace trainctl::train {

class Utilization {
 public:
  /// Measures the device in the precision of the run: about 50 ms.
  explicit Utilization(const Run& run);
  /// Takes the device's FLOPs per second as measured before.
  Utilization(const Run& run, double peak_flops);
  /// Returns the utilization of all ranks' devices together, each assumed to be as fast as this one. Counts three times
  /// the forward pass per sample, as if all parameters were trained. Doesn't count recomputation.
  double mfu(const Throughput::Window& pace) const;

 private:
  double flops_per_sample_;
  double flops_per_token_;  // 0: not text
  double peak_flops_;
  double num_devices_;
};

}  // namespace trainctl::train
