// The samples of predictions.json for TensorBoard: pictures, and texts or rows in a table.
#pragma once

#include <nlohmann/json.hpp>

#include "tracking/trackers/tensorboard_events.h"

namespace trainctl::tracking {

/// Adds the samples as "eval/first" and "eval/worst": a picture each, or one table in Markdown. Does nothing if there
/// are none.
void add_sample_predictions(const nlohmann::ordered_json& predictions, SummaryValues& values);

}  // namespace trainctl::tracking
