#include "profiler/findings/rules.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"

namespace trainctl::profiler {
namespace {

/// Formats a number with as many decimals as its size needs.
std::string short_number(double value) {
  return core::format_fixed(value, std::abs(value) >= 100 ? 0 : std::abs(value) >= 1 ? 1 : 3);
}

}  // namespace

double exposed_on_every_rank(const ProfileSummary& summary) {
  if (!summary.distributed || summary.distributed->ranks.empty()) return 0;
  const auto exposed = [](const RankSummary& rank) { return std::max(0.0, rank.exposed_ms - rank.stage_wait_ms); };
  return exposed(std::ranges::min(summary.distributed->ranks, {}, exposed));
}

std::string ms_text(double ms) {
  return short_number(ms) + " ms";
}

std::string mib_text(double mib) {
  return short_number(mib) + " MiB";
}

std::string percent(double share) {
  return core::format_percent(share, 0);
}

std::string time_gain(const ProfileSummary& summary, double gain_ms, Certainty certainty) {
  const double step = summary.steps.time.mean_ms;
  const double rest = std::max(step - gain_ms, step / 100);
  return (certainty == Certainty::at_most ? "up to " : "about ") + ms_text(gain_ms) + " a step (" +
         core::format_digits(step / rest, 3) + "× the speed)";
}

}  // namespace trainctl::profiler
