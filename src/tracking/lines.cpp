#include "tracking/lines.h"

#include <cmath>

#include "core/text.h"

namespace trainctl::tracking {
namespace {

constexpr const char* kGap = "  ";
constexpr const char* kNextLine = "\n  ";

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

/// Formats "60,000 samples of 10 classes, 10,000 for evaluation"; "" if their number isn't known.
std::string data_text(const RunStarted& run) {
  if (run.num_samples <= 0) return "";
  std::string text = core::format_count(run.num_samples) + " samples";
  if (run.num_classes > 0) text += " of " + core::format_count(run.num_classes) + " classes";
  if (run.num_eval_samples > 0) text += ", " + core::format_count(run.num_eval_samples) + " for evaluation";
  return text;
}

/// Formats "938 steps of 128 samples, 2 epochs".
std::string length_text(const RunStarted& run) {
  std::string text = steps_of(run.total_steps);
  if (run.batch_size > 0)
    text += " of " + core::format_count(run.batch_size) + (run.batch_size == 1 ? " sample" : " samples");
  if (run.steps_per_epoch > 0 && run.total_steps > 0) {
    const double epochs =
        static_cast<double>(run.total_steps + run.schedule_offset) / static_cast<double>(run.steps_per_epoch);
    text += ", " + core::format_digits(epochs, 3) + (epochs == 1 ? " epoch" : " epochs");
  }
  return text;
}

std::string text_of(const RunStarted& run) {
  std::string text = run.name + ": " + (run.model.empty() ? "" : run.model + ", ");
  text += core::format_count(run.num_parameters) + " parameters";
  if (!run.precision.empty()) text += ", " + run.precision;
  text += " on " + run.device;
  if (const std::string data = data_text(run); !data.empty()) text += kNextLine + data;
  text += kNextLine + length_text(run);
  if (run.first_step > 0) text += kNextLine + std::string("resumed after step ") + std::to_string(run.first_step);
  return text + (run.run_directory.empty() ? "" : kNextLine + std::string("writing ") + run.run_directory);
}

std::string text_of(const StepLogged& step, const RunStarted& run) {
  std::string text = "step " + std::to_string(step.step);
  if (run.total_steps > 0) text += "/" + std::to_string(run.total_steps);
  text += kGap + loss_text(step) + kGap + "lr " + core::format_digits(step.lr, 4);
  text += kGap + rate(step.samples_per_s, step.tokens_per_s);
  if (step.step_ms > 0) text += kGap + std::string("data wait ") + percent(step.data_wait_ms / step.step_ms, 1);
  if (step.exposed_communication_ms && step.step_ms > 0)
    text += kGap + std::string("communication ") + percent(*step.exposed_communication_ms / step.step_ms, 1);
  if (step.mfu && run.is_on_gpu) text += kGap + std::string("mfu ") + percent(*step.mfu, 0);
  text += kGap + format_mib(step.memory_mib);
  if (step.loss_scale) text += kGap + std::string("loss scale ") + core::format_digits(*step.loss_scale, 6);
  if (step.num_skipped > 0) text += kGap + std::to_string(step.num_skipped) + " skipped";
  return text;
}

std::string text_of(const Evaluated& evaluated) {
  std::string text = "evaluation at step " + std::to_string(evaluated.step) + kGap + format_metrics(evaluated.metrics);
  if (evaluated.best && evaluated.best->step != evaluated.step) text += kGap + best_text(*evaluated.best);
  return text + kGap + "(" + core::format_duration(evaluated.seconds) + ")";
}

std::string text_of(const CheckpointSaved& saved) {
  return "checkpoint of step " + std::to_string(saved.step) + " in " + saved.path + kGap + "(" +
         core::format_duration(saved.seconds) + ")";
}

std::string text_of(const Notice& notice) {
  return notice.level == Level::warning ? "warning: " + notice.text : notice.text;
}

std::string text_of(const RunFinished& finished, const RunStarted& run) {
  if (finished.outcome == Outcome::failed) return "failed after " + steps_of(finished.steps);  // main prints the reason
  const bool is_finished = finished.outcome == Outcome::finished;
  std::string text = is_finished ? "finished " : "stopped after ";
  text += steps_of(finished.steps) + " in " + core::format_duration(finished.wall_s);
  if (!finished.final_metrics.empty()) text += kGap + format_metrics(finished.final_metrics);
  if (finished.samples_per_s > 0) text += kGap + rate(finished.samples_per_s, finished.tokens_per_s);
  if (finished.peak_memory_mib > 0) text += kGap + std::string("peak ") + format_mib(finished.peak_memory_mib);
  if (finished.num_skipped > 0) text += kGap + std::to_string(finished.num_skipped) + " skipped";
  if (!run.run_directory.empty()) text += kNextLine + std::string("run: ") + run.run_directory;
  if (!run.report.empty()) text += kNextLine + std::string("report: ") + run.report;
  if (finished.best) text += kNextLine + best_text(*finished.best);
  const std::string& command = is_finished ? run.next_command : run.resume_command;
  if (!command.empty()) text += kNextLine + std::string(is_finished ? "next: " : "to go on: ") + command;
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

std::string best_text(const BestValue& best) {
  return "best " + format_metrics({{best.metric, best.value}}) + " at step " + core::format_count(best.step);
}

std::string line_of(const Event& event, const RunStarted& run) {
  if (const auto* step = std::get_if<StepLogged>(&event)) return text_of(*step, run);
  if (const auto* started = std::get_if<RunStarted>(&event)) return text_of(*started);
  if (const auto* evaluated = std::get_if<Evaluated>(&event)) return text_of(*evaluated);
  if (const auto* saved = std::get_if<CheckpointSaved>(&event)) return text_of(*saved);
  if (const auto* notice = std::get_if<Notice>(&event)) return text_of(*notice);
  if (const auto* finished = std::get_if<RunFinished>(&event)) return text_of(*finished, run);
  return "";
}

}  // namespace trainctl::tracking
