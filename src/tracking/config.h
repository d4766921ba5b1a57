// `tracking:`: where metrics go besides the console and metrics.jsonl.
#pragma once

#include "config/field.h"

namespace trainctl::tracking {

struct TrackingConfig {
  bool tensorboard = false;
  bool log_sample_ids = false;

  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&TrackingConfig::tensorboard>("Write TensorBoard event files into the run directory."),
        field<&TrackingConfig::log_sample_ids>(
            "Record which samples each rank took at each step, in logs/samples_rank_<n>.jsonl."),
    };
  }
};

}  // namespace trainctl::tracking
