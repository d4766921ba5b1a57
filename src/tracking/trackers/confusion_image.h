// A confusion matrix as a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tracking/trackers/tensorboard_events.h"

namespace trainctl::tracking {

/// Returns a picture of the matrix: a square for each pair of classes, with a row for each true class. A square is the
/// darker, the larger its share of the row. Returns nothing if `rows` is no square matrix of counts.
std::optional<EncodedImage> confusion_image(const nlohmann::ordered_json& rows);

}  // namespace trainctl::tracking
