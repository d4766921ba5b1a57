// Learning rates as pure functions of the step. Indexed as PyTorch's schedulers: step 0 is the first update.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "optimizer/config.h"
#include "runtime/state.h"

namespace trainctl::optimizer {

struct RunLength {
  std::int64_t total_steps = 1;
  std::int64_t steps_per_epoch = 1;
};

/// The learning rate of update number `step` (0-based).
///
/// Counts are in the config's unit: steps, or whole epochs (a run has ceil(total_steps / steps_per_epoch)). Over the
/// first `warmup` units the rate is peak_lr * (s + (1 - s) * unit / warmup), with s = warmup_start_factor. The shape
/// then begins at its own unit 0 and covers the rest of the run, as in torch.optim.lr_scheduler.SequentialLR([LinearLR,
/// shape]). Past the end the rate stays. reduce_on_plateau is constant here; see Plateau.
double lr_at(const ScheduleConfig& config, double peak_lr, std::int64_t step, const RunLength& run);

/// reduce_on_plateau's memory: a factor on the learning rate that evaluations lower.
class Plateau {
 public:
  Plateau(const PlateauScheduleConfig& config, double peak_lr) : config_(config), peak_lr_(peak_lr), lr_(peak_lr) {}
  void observe(double metric);
  /// Takes the next metric for the best one so far. The reductions stay.
  void forget_best() { has_best_ = num_bad_ = 0; }
  double factor() const { return lr_ / peak_lr_; }
  /// The evaluation metric that it follows.
  const std::string& metric() const { return config_.metric; }
  void visit_state(runtime::State& state);

 private:
  PlateauScheduleConfig config_;
  double peak_lr_;
  double lr_;
  double best_ = 0;
  std::int64_t has_best_ = 0;
  std::int64_t num_bad_ = 0;
  std::int64_t cooldown_left_ = 0;
};

/// Returns the memory of a schedule that follows a metric; nothing for the others.
std::optional<Plateau> plateau_of(const ScheduleConfig& config, double peak_lr);

}  // namespace trainctl::optimizer
