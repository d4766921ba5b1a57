#include <cmath>

#include "tracking/append_file.h"
#include "tracking/cut_back.h"
#include "tracking/record.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

class Jsonl final : public Sink {
 public:
  Jsonl(const TrackerOptions& options, const std::filesystem::path& path)
      : file_(path, options.resumed ? IfExists::append : IfExists::truncate), unix_time_(options.unix_time) {}

  void on(const Event& event) override {
    if (const auto* step = std::get_if<StepLogged>(&event)) write(*step);
    if (const auto* parameters = std::get_if<ParametersMeasured>(&event)) write(*parameters);
    if (const auto* evaluated = std::get_if<Evaluated>(&event)) write(*evaluated);
    if (std::holds_alternative<RunFinished>(event)) file_.finish();
  }

 private:
  void write(const StepLogged& step) {
    Record record;
    record.text("event", "step");
    record.count("step", step.step);
    record.count("epoch", step.epoch);
    if (step.loss) record.number("loss", *step.loss);
    record.number("lr", step.lr);
    if (step.grad_norm) record.number("grad_norm", *step.grad_norm);
    record.number("samples_per_s", step.samples_per_s);
    if (step.tokens_per_s > 0) record.number("tokens_per_s", step.tokens_per_s);
    if (step.mfu) record.number("mfu", *step.mfu);
    record.number("memory_mib", step.memory_mib);
    record.number("data_wait_ms", step.data_wait_ms);
    if (step.communication_ms) {
      record.number("communication_ms", *step.communication_ms);
      record.number("exposed_communication_ms", *step.exposed_communication_ms);
    }
    record.number("step_ms", step.step_ms);
    if (step.loss_scale) record.number("loss_scale", *step.loss_scale);
    record.count("skipped_steps", step.num_skipped);
    record.number("time", time());
    file_.append(record.line());
  }

  void write(const Evaluated& evaluated) {
    Record record;
    record.text("event", "eval");
    record.count("step", evaluated.step);
    for (const auto& [name, value] : evaluated.metrics) record.number(name, value);
    record.number("seconds", evaluated.seconds);
    record.number("time", time());
    file_.append(record.line());
  }

  void write(const ParametersMeasured& parameters) {
    Record record;
    record.text("event", "parameters");
    record.count("step", parameters.step);
    nlohmann::ordered_json histograms = nlohmann::ordered_json::object();
    for (const TensorMeasured& tensor : parameters.tensors) {
      record.number("norm/" + tensor.name, tensor.norm);
      const Histogram& histogram = tensor.histogram;
      if (!histogram.counts.empty())
        histograms[tensor.name] = {{"low", histogram.low}, {"high", histogram.high}, {"counts", histogram.counts}};
    }
    record.object("histograms", std::move(histograms));
    record.number("time", time());
    file_.append_large(record.line(), parameters.step);
  }

  /// Returns the time in Unix seconds, to a millisecond.
  double time() const { return std::round(unix_time_() * 1e3) / 1e3; }

  AppendFile file_;
  std::function<double()> unix_time_;
};

}  // namespace

std::unique_ptr<Sink> make_jsonl(const TrackerOptions& options) {
  const std::filesystem::path path = options.run_directory / "metrics.jsonl";
  if (options.resumed) cut_back(path, options.first_step);
  return std::make_unique<Jsonl>(options, path);
}

}  // namespace trainctl::tracking
