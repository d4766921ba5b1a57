// The samples of the newest evaluation with the model's answers, as the run directory's predictions.json.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "dataset/dataset.h"
#include "task/examples.h"
#include "tracking/event.h"

namespace trainctl::train {

/// Returns what a person sees of a sample: {"picture": "data:…"}, {"text": …}, {"row": {…}} or {"tokens": […]}.
using ShowSample = std::function<nlohmann::ordered_json(const task::Example& example)>;

/// Passes the samples on at most every ten seconds, since drawing pictures takes a few milliseconds, and at the end.
class PredictionLog {
 public:
  /// `spec`: of the evaluation set. An empty `show` shows nothing of a sample but the answer.
  PredictionLog(const dataset::SampleSpec& spec, tracking::Sink& sink, ShowSample show,
                core::Clock clock = core::steady_now);
  /// Takes the samples of an evaluation at this step.
  void take(std::int64_t step, task::Examples examples);
  /// Passes on what is not passed on yet.
  void flush();

 private:
  nlohmann::ordered_json record_of(const task::Example& example) const;
  nlohmann::ordered_json records_of(const std::vector<task::Example>& examples) const;
  /// Returns a class's name, or its number.
  nlohmann::ordered_json class_of(double index) const;

  dataset::Targets targets_;
  std::vector<std::string> class_names_;
  dataset::Standardization labels_;
  tracking::Sink& sink_;
  ShowSample show_;
  std::int64_t step_ = 0;
  std::optional<task::Examples> waiting_;
  core::Clock clock_;
  std::optional<core::TimePoint> passed_on_;
};

}  // namespace trainctl::train
