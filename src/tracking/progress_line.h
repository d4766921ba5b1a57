// The line of a progress bar, from what is known about the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tracking/event.h"

namespace trainctl::tracking {

enum class Glyphs { ascii, unicode };
enum class Colors { off, on };

struct ProgressLook {
  Glyphs glyphs = Glyphs::unicode;
  Colors colors = Colors::off;
  std::int64_t columns = 80;  // the line never takes more
};

struct ProgressState {
  Progress now;
  RunStarted run;
  std::optional<StepLogged> last;  // record
  std::optional<double> loss;      // newer than the record's
  std::optional<BestValue> best;   // evaluation
  double eta_s = -1;               // < 0: unknown
};

/// What doesn't fit is left out, the least important first.
std::string progress_line(const ProgressState& state, const ProgressLook& look);

}  // namespace trainctl::tracking
