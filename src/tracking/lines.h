// Events as lines for a person, without the last line's end; "" for what isn't worth a line.
#pragma once

#include <cstdint>
#include <string>

#include "tracking/event.h"

namespace trainctl::tracking {

/// Formats an event of the run that has started so; an empty RunStarted if that is unknown. The first and the last
/// event of a run take several lines.
std::string line_of(const Event& event, const RunStarted& run);

/// "loss 0.2931".
std::string loss_text(const StepLogged& step);

/// "best accuracy 91.62% at step 469".
std::string best_text(const BestValue& best);

/// "812 MiB".
std::string format_mib(double mib);

/// "loss 0.2931  accuracy 91.62%".
std::string format_metrics(const std::vector<std::pair<std::string, double>>& metrics);

}  // namespace trainctl::tracking
