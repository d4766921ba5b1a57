#include "train/run/best.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "core/text.h"

namespace trainctl::train {

std::optional<double> find_metric(const task::Metrics& metrics, const std::string& name) {
  for (const auto& [metric, value] : metrics)
    if (metric == name) return value;
  return std::nullopt;
}

std::string BestEvaluation::deciding_metric(const task::Metrics& metrics) const {
  return config_ ? config_->metric : metrics.front().first;
}

std::optional<tracking::BestValue> BestEvaluation::value() const {
  if (metrics_.empty()) return std::nullopt;
  const std::string name = deciding_metric(metrics_);
  const std::optional<double> value = find_metric(metrics_, name);
  if (!value) return std::nullopt;  // the config has changed since
  return tracking::BestValue{.metric = name, .value = *value, .step = step_};
}

bool BestEvaluation::observe(const task::Metrics& metrics, std::int64_t step) {
  if (metrics.empty()) return false;  // nothing in the evaluation set had a target
  const std::string name = deciding_metric(metrics);
  const bool higher_is_better = config_ && config_->mode == checkpoint::MetricOrder::max;
  const std::optional<double> now = find_metric(metrics, name);
  if (!now || !std::isfinite(*now)) return false;
  const std::optional<double> before = find_metric(metrics_, name);
  if (before && (higher_is_better ? *now <= *before : *now >= *before)) return false;
  metrics_ = metrics;
  step_ = step;
  return true;
}

void BestEvaluation::visit_state(runtime::State& state) {
  visit_evaluation(state, metrics_, step_);
}

void visit_evaluation(runtime::State& state, task::Metrics& metrics, std::int64_t& step) {
  std::string lines;
  for (const auto& [name, value] : metrics) lines += name + " " + core::format_number(value) + "\n";
  state.text("metrics", lines);
  state.integer("step", step);
  metrics.clear();
  std::istringstream stream(lines);
  for (std::string name, value; stream >> name >> value;)
    metrics.emplace_back(name, std::strtod(value.c_str(), nullptr));
}

}  // namespace trainctl::train
