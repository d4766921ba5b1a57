#include "train/run/early_stopping.h"

#include <cmath>

#include "core/text.h"
#include "train/run/best.h"

namespace trainctl::train {

void EarlyStopping::observe(const task::Metrics& metrics) {
  const std::optional<double> value = find_metric(metrics, config_.metric);
  if (!value || !std::isfinite(*value) || !improves(*value)) {
    ++num_without_;
    return;
  }
  best_ = *value;
  ++num_observed_;
  num_without_ = 0;
}

bool EarlyStopping::improves(double value) const {
  if (num_observed_ == 0) return true;
  const double gain = config_.mode == checkpoint::MetricOrder::min ? best_ - value : value - best_;
  return gain > config_.min_delta;
}

std::string EarlyStopping::reason() const {
  std::string text = "no better " + config_.metric + " in " + core::format_count(num_without_) + " evaluations";
  if (num_observed_ > 0) text += "; the best was " + core::format_digits(best_, 6);
  return text;
}

void EarlyStopping::visit_state(runtime::State& state) {
  state.number("best", best_);
  state.integer("num_observed", num_observed_);
  state.integer("num_without", num_without_);
  const char* const best = config_.mode == checkpoint::MetricOrder::min ? "lowest " : "highest ";
  if (runtime::watched_another(state, best + config_.metric)) forget_best();
}

}  // namespace trainctl::train
