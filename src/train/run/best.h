// The best evaluation so far. Part of a run's state, so that a resumed run remembers it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/config.h"
#include "runtime/state.h"
#include "task/task.h"
#include "tracking/event.h"

namespace trainctl::train {

class BestEvaluation {
 public:
  /// Without a config the first metric decides, the lowest being best: the loss.
  explicit BestEvaluation(const std::optional<checkpoint::BestConfig>& config) : config_(config) {}
  /// Takes these metrics if they are better; a metric that isn't finite never is.
  bool observe(const task::Metrics& metrics, std::int64_t step);
  const task::Metrics& metrics() const { return metrics_; }
  std::int64_t step() const { return step_; }
  /// Returns the metric that decides, where there was an evaluation.
  std::optional<tracking::BestValue> value() const;
  void visit_state(runtime::State& state);

 private:
  std::string deciding_metric(const task::Metrics& metrics) const;

  std::optional<checkpoint::BestConfig> config_;
  task::Metrics metrics_;
  std::int64_t step_ = 0;
};

/// Shows the metrics of an evaluation, and its step.
void visit_evaluation(runtime::State& state, task::Metrics& metrics, std::int64_t& step);

/// The value of a metric, where it is there.
std::optional<double> find_metric(const task::Metrics& metrics, const std::string& name);

}  // namespace trainctl::train
