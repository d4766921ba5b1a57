// A run's figures as JSON, for the pages and documents about runs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "compare/run_record.h"

namespace trainctl::compare {

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// Rounds to six significant digits, as many as a screen shows; null for what isn't finite.
nlohmann::ordered_json rounded(double value);

/// Returns an object with the values by name; those that aren't finite are null.
nlohmann::ordered_json object_of(const NamedValues& values);

/// Returns an object with the steps, metrics, times and sizes of the run; what isn't known is null.
nlohmann::ordered_json figures_of(const RunRecord& run);

}  // namespace trainctl::compare
