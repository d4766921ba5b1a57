// Events as lines for a person, without the line's end; "" for what isn't worth a line.
#pragma once

#include <cstdint>
#include <string>

#include "tracking/event.h"

namespace trainctl::tracking {

/// `total_steps` 0 when unknown.
std::string line_of(const Event& event, std::int64_t total_steps);

/// "loss 0.2931".
std::string loss_text(const StepLogged& step);

/// "812 MiB".
std::string format_mib(double mib);

/// "loss 0.2931  accuracy 91.62%".
std::string format_metrics(const std::vector<std::pair<std::string, double>>& metrics);

}  // namespace trainctl::tracking
