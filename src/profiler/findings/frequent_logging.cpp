#include <algorithm>
#include <array>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.03;  // of the step
constexpr double kNegligible = 0.01;

}  // namespace

std::optional<Finding> frequent_logging(const ProfileSummary& summary) {
  const double every = static_cast<double>(summary.run.choices.log_every);
  const double cost = summary.host.record_ms / std::max(1.0, every);  // a step
  const double step = summary.steps.time.mean_ms;
  if (step <= 0 || cost < kNotable * step) return {};
  double enough = every;
  for (const double candidate : {10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0}) {
    enough = std::max(every, candidate);
    if (summary.host.record_ms / enough < kNegligible * step) break;
  }
  const double gain = cost - summary.host.record_ms / enough;
  if (gain <= 0) return {};
  return Finding{.rule = "frequent_logging",
                 .what = "Records are written too often",
                 .evidence = "a record takes " + ms_text(summary.host.record_ms) + ", " + percent(cost / step) +
                             " of a step's " + ms_text(step) + " with one every " +
                             (every == 1 ? "step" : std::to_string(static_cast<int>(every)) + " steps"),
                 .changes = {{"train.log_every", std::to_string(static_cast<std::int64_t>(enough))}},
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain, Certainty::expected)};
}

}  // namespace trainctl::profiler
