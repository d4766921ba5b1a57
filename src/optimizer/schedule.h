// Learning rates as pure functions of the step. Indexed as PyTorch's schedulers: step 0 is the first update.
#pragma once

#include <cstdint>

#include "optimizer/config.h"
#include "runtime/state.h"

namespace trainctl {

struct RunLength {
  std::int64_t total_steps = 1;
  std::int64_t steps_per_epoch = 1;
};

/// The learning rate of update number `step` (0-based). reduce_on_plateau is constant here; see Plateau.
double lr_at(const ScheduleConfig& config, double peak_lr, std::int64_t step, const RunLength& run);

/// reduce_on_plateau's memory: a factor on the learning rate that evaluations lower.
class Plateau {
 public:
  Plateau(const PlateauScheduleConfig& config, double peak_lr) : config_(config), peak_lr_(peak_lr) {}
  void observe(double metric);
  double factor() const { return factor_; }
  void visit_state(State& state);

 private:
  PlateauScheduleConfig config_;
  double peak_lr_;
  double factor_ = 1;
  double best_ = 0;
  std::int64_t num_bad_ = 0;
  std::int64_t cooldown_left_ = 0;
  std::int64_t num_observed_ = 0;
};

}  // namespace trainctl
