// Finds steps whose loss and gradient stand out from those of the steps before. Part of a run's state, so that a
// resumed run finds the same steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "runtime/state.h"
#include "train/config.h"

namespace trainctl::train {

/// A step that stands out. A robust z-score is the distance from the median in robust standard deviations: 1.4826 times
/// the median of absolute distances.
struct LossSpike {
  double loss = 0;
  double usual_loss = 0;  // the median
  double loss_z = 0;
  double grad_norm = 0;
  double usual_grad_norm = 0;
  double grad_norm_z = 0;  // of the logarithm
};

class LossSpikes {
 public:
  explicit LossSpikes(const LossSpikesConfig& config);
  /// Takes a step's mean loss and gradient norm. Returns the spike, if it is one: then later steps aren't compared with
  /// it. Values that aren't finite are passed over.
  std::optional<LossSpike> observe(double loss, double grad_norm);
  void visit_state(runtime::State& state);

 private:
  LossSpikesConfig config_;
  at::Tensor steps_;  // double [window, 2]: losses and logarithms of gradient norms, the oldest replaced first
  std::int64_t num_steps_ = 0;  // taken, without spikes
};

}  // namespace trainctl::train
