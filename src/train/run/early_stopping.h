// Ends a run whose evaluations no longer improve. Part of a run's state, so that a resumed run counts on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/state.h"
#include "task/task.h"
#include "train/config.h"

namespace trainctl::train {

/// Counts evaluations without an improvement, as Lightning's EarlyStopping does.
class EarlyStopping {
 public:
  explicit EarlyStopping(EarlyStoppingConfig config) : config_(std::move(config)) {}

  /// Takes the metrics of an evaluation. A metric that isn't finite, or isn't there, is no improvement.
  void observe(const task::Metrics& metrics);
  /// Takes the next evaluation for the best one so far.
  void forget_best() { num_observed_ = num_without_ = 0; }
  /// Returns whether `patience` evaluations in a row brought no improvement.
  bool is_over() const { return num_without_ >= config_.patience; }
  /// Returns "no better loss in 3 evaluations; the best was 0.31".
  std::string reason() const;
  void visit_state(runtime::State& state);

 private:
  bool improves(double value) const;

  EarlyStoppingConfig config_;
  double best_ = 0;                // of num_observed_ > 0
  std::int64_t num_observed_ = 0;  // finite values
  std::int64_t num_without_ = 0;   // evaluations since the best one
};

}  // namespace trainctl::train
