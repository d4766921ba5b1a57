#include "train/loop/prediction_log.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainctl::train {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::seconds kBetween{10};

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

}  // namespace

PredictionLog::PredictionLog(const dataset::SampleSpec& spec, tracking::Sink& sink, ShowSample show, core::Clock clock)
    : targets_(spec.targets),
      class_names_(spec.class_names),
      labels_(spec.labels),
      sink_(sink),
      show_(std::move(show)),
      clock_(std::move(clock)) {}

void PredictionLog::take(std::int64_t step, task::Examples examples) {
  if (examples.first.empty()) return;
  step_ = step;
  waiting_ = std::move(examples);
  if (!passed_on_ || clock_() - *passed_on_ >= kBetween) flush();
}

void PredictionLog::flush() {
  if (!waiting_) return;
  const ordered_json document{
      {"step", step_}, {"first", records_of(waiting_->first)}, {"worst", records_of(waiting_->worst)}};
  waiting_.reset();
  sink_.on(
      tracking::SamplesPredicted{.document = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace)});
  passed_on_ = clock_();
}

ordered_json PredictionLog::class_of(double index) const {
  const auto number = static_cast<std::size_t>(index);
  return number < class_names_.size() ? ordered_json(class_names_[number]) : ordered_json(number);
}

ordered_json PredictionLog::record_of(const task::Example& example) const {
  ordered_json record{{"sample", example.sample}, {"loss", number_or_null(example.loss)}};
  if (targets_ == dataset::Targets::labels) {
    record["label"] = class_of(example.target);
    record["prediction"] = class_of(example.answer);
    record["score"] = number_or_null(example.score);
  } else if (targets_ == dataset::Targets::values) {
    record["label"] = number_or_null(labels_.restored(example.target));
    record["prediction"] = number_or_null(labels_.restored(example.answer));
  }
  if (!show_) return record;
  try {
    record.update(show_(example));
  } catch (const std::exception& error) {  // the answer is shown without the sample
    record["not_shown"] = error.what();
  }
  return record;
}

ordered_json PredictionLog::records_of(const std::vector<task::Example>& examples) const {
  ordered_json records = ordered_json::array();
  for (const task::Example& example : examples) records.push_back(record_of(example));
  return records;
}

}  // namespace trainctl::train
