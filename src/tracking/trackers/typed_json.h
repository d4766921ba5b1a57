// Values of a config and of a run's end as JSON that trackers show as numbers.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace trainctl::tracking {

/// Returns a config's values, which are YAML's scalars, as JSON's: 0.001, true, null, "adamw".
nlohmann::ordered_json typed_config(const std::map<std::string, std::string>& config);

/// Returns a document's numbers, texts and truth values by their place: {"best_metrics/accuracy": 0.93}. Leaves out
/// lists and nulls.
nlohmann::ordered_json flat_values(const nlohmann::ordered_json& document);

/// Returns a JSON number's text; `nan` for NaN, which JSON has no number for.
std::string number_text(double value, const char* nan);

}  // namespace trainctl::tracking
