#include "tracking/lines.h"

#include <cmath>

#include "core/text.h"

namespace trainctl::tracking {
namespace {

constexpr const char* kGap = "  ";

/// Rounds to a whole number; prints other values as they are ("nan").
std::string whole(double value) {
  return std::abs(value) < 1e15 ? core::format_count(std::llround(value)) : core::format_digits(value, 4);
}

/// Whether the metric is a fraction of samples, which is printed as a percentage.
bool is_share(const std::string& name) {
  return name.find("accuracy") != std::string::npos || name.starts_with("top");
}

std::string percent(double share, int decimals) {
  return core::format_fixed(100 * share, decimals) + "%";
}

std::string rate(double samples_per_s, double tokens_per_s) {
  return tokens_per_s > 0 ? whole(tokens_per_s) + " tokens/s" : whole(samples_per_s) + " samples/s";
}

std::string steps_of(std::int64_t count) {
  return core::format_count(count) + (count == 1 ? " step" : " steps");
}

std::string text_of(const RunStarted& run) {
  std::string text = run.name + ": " + steps_of(run.total_steps);
  if (run.num_samples > 0) text += ", " + core::format_count(run.num_samples) + " samples";
  if (run.num_classes > 0) text += " of " + core::format_count(run.num_classes) + " classes";
  text += ", " + core::format_count(run.num_parameters) + " parameters on " + run.device;
  if (run.first_step > 0) text += ", resumed after step " + std::to_string(run.first_step);
  return text + (run.run_directory.empty() ? "" : "; writing " + run.run_directory);
}

std::string text_of(const StepLogged& step, std::int64_t total_steps) {
  std::string text = "step " + std::to_string(step.step);
  if (total_steps > 0) text += "/" + std::to_string(total_steps);
  text += kGap + loss_text(step) + kGap + "lr " + core::format_digits(step.lr, 4);
  text += kGap + rate(step.samples_per_s, step.tokens_per_s);
  if (step.step_ms > 0) text += kGap + std::string("data wait ") + percent(step.data_wait_ms / step.step_ms, 1);
  if (step.exposed_communication_ms && step.step_ms > 0)
    text += kGap + std::string("communication ") + percent(*step.exposed_communication_ms / step.step_ms, 1);
  if (step.mfu) text += kGap + std::string("mfu ") + percent(*step.mfu, 0);
  text += kGap + format_mib(step.memory_mib);
  if (step.loss_scale) text += kGap + std::string("loss scale ") + core::format_digits(*step.loss_scale, 6);
  if (step.num_skipped > 0) text += kGap + std::to_string(step.num_skipped) + " skipped";
  return text;
}

std::string text_of(const Evaluated& evaluated) {
  return "evaluation at step " + std::to_string(evaluated.step) + kGap + format_metrics(evaluated.metrics) + kGap +
         "(" + core::format_duration(evaluated.seconds) + ")";
}

std::string text_of(const CheckpointSaved& saved) {
  return "checkpoint of step " + std::to_string(saved.step) + " in " + saved.path + kGap + "(" +
         core::format_duration(saved.seconds) + ")";
}

std::string text_of(const Notice& notice) {
  return notice.level == Level::warning ? "warning: " + notice.text : notice.text;
}

std::string text_of(const RunFinished& run) {
  if (run.outcome == Outcome::failed) return "failed after " + steps_of(run.steps);  // main prints the reason
  std::string text = run.outcome == Outcome::finished ? "finished " : "stopped after ";
  text += steps_of(run.steps) + " in " + core::format_duration(run.wall_s);
  if (!run.final_metrics.empty()) text += kGap + format_metrics(run.final_metrics);
  if (!run.best_metrics.empty() && run.best_step != run.steps)
    text +=
        kGap + std::string("best at step ") + std::to_string(run.best_step) + ": " + format_metrics(run.best_metrics);
  if (run.samples_per_s > 0) text += kGap + rate(run.samples_per_s, run.tokens_per_s);
  if (run.peak_memory_mib > 0) text += kGap + std::string("peak ") + format_mib(run.peak_memory_mib);
  if (run.num_skipped > 0) text += kGap + std::to_string(run.num_skipped) + " skipped";
  return text;
}

}  // namespace

std::string loss_text(const StepLogged& step) {
  return step.loss ? "loss " + core::format_metric(*step.loss) : "no loss, updates skipped";
}

std::string format_mib(double mib) {
  return whole(mib) + " MiB";
}

std::string format_metrics(const std::vector<std::pair<std::string, double>>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += (text.empty() ? "" : kGap) + name + " " + (is_share(name) ? percent(value, 2) : core::format_metric(value));
  return text;
}

std::string line_of(const Event& event, std::int64_t total_steps) {
  if (const auto* step = std::get_if<StepLogged>(&event)) return text_of(*step, total_steps);
  if (const auto* run = std::get_if<RunStarted>(&event)) return text_of(*run);
  if (const auto* evaluated = std::get_if<Evaluated>(&event)) return text_of(*evaluated);
  if (const auto* saved = std::get_if<CheckpointSaved>(&event)) return text_of(*saved);
  if (const auto* notice = std::get_if<Notice>(&event)) return text_of(*notice);
  if (const auto* run = std::get_if<RunFinished>(&event)) return text_of(*run);
  return "";
}

}  // namespace trainctl::tracking
