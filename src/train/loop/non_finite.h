// A step whose loss or gradient is not finite: where the first such number is, and what the run does.
#pragma once

#include "tracking/event.h"
#include "train/loop/step.h"

namespace trainctl::train {

enum class AfterNonFinite { go_on, roll_back };

/// Whether a loss or gradient of the steps since the last look wasn't finite. Stays on the device until it is read.
class NonFiniteSteps {
 public:
  void add(const StepResult& result);
  /// Returns how many steps were added, if one of them wasn't finite, else 0; and begins anew. Waits for the device.
  std::int64_t take();

 private:
  at::Tensor any_;  // float [1]; undefined: no step
  std::int64_t count_ = 0;
};

/// Applies `train.on_non_finite` to the last `num_steps` steps, of which one had a loss or gradient that isn't finite;
/// 0 if none had. Throws Error where the run must stop, and names the first value that isn't finite: the input, a
/// parameter, or the output of a block.
[[nodiscard]] AfterNonFinite handle_non_finite(Run& run, const Step& step, std::int64_t num_steps,
                                               tracking::Sink& sink);

}  // namespace trainctl::train
