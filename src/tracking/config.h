// `tracking:`: where metrics go besides the console and metrics.jsonl.
#pragma once

#include "config/field.h"

namespace trainctl {

struct TrackingConfig {
  bool tensorboard = false;

  static constexpr auto fields() {
    return std::tuple{
        config::field<&TrackingConfig::tensorboard>("Write TensorBoard event files into the run directory.")};
  }
};

}  // namespace trainctl
