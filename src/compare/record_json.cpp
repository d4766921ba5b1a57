#include "compare/record_json.h"

#include <cmath>
#include <cstdlib>

#include "core/text.h"

namespace trainctl::compare {

using nlohmann::ordered_json;

ordered_json rounded(double value) {
  return std::isfinite(value) ? ordered_json(std::strtod(core::format_digits(value, 6).c_str(), nullptr))
                              : ordered_json(nullptr);
}

ordered_json object_of(const NamedValues& values) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, value] : values)
    object[name] = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  return object;
}

ordered_json figures_of(const RunRecord& run) {
  return {{"steps", run.steps},
          {"final_metrics", object_of(run.final_metrics)},
          {"best_metrics", object_of(run.best_metrics)},
          {"best_step", or_null(run.best_step)},
          {"median_step_ms", or_null(run.median_step_ms)},
          {"samples_per_s", or_null(run.samples_per_s)},
          {"tokens_per_s", or_null(run.tokens_per_s)},
          {"data_wait_share", or_null(run.data_wait_share)},
          {"peak_memory_mib", or_null(run.peak_memory_mib)},
          {"wall_s", or_null(run.wall_s)},
          {"num_parameters", or_null(run.num_parameters)}};
}

}  // namespace trainctl::compare
