#include "profiler/verdicts/rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace trainctl {
namespace {

/// A number with as many decimals as its size asks for.
std::string short_number(double value) {
  char text[32];
  const int decimals = std::abs(value) >= 100 ? 0 : std::abs(value) >= 1 ? 1 : 3;
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace

std::string setting(const ProfileSummary& summary, const std::string& key) {
  const auto found = summary.run.settings.find(key);
  return found == summary.run.settings.end() ? "" : found->second;
}

std::int64_t whole_setting(const ProfileSummary& summary, const std::string& key, std::int64_t otherwise) {
  const std::string text = setting(summary, key);
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  return text.empty() || *end != '\0' ? otherwise : value;
}

std::string ms_text(double ms) {
  return short_number(ms) + " ms";
}

std::string mib_text(double mib) {
  return short_number(mib) + " MiB";
}

std::string percent(double share) {
  return std::to_string(std::lround(100 * share)) + " %";
}

std::string time_gain(const ProfileSummary& summary, double gain_ms, Certainty certainty) {
  const double step = summary.steps.time.mean_ms;
  const double rest = std::max(step - gain_ms, step / 100);
  char speed[32];
  std::snprintf(speed, sizeof speed, "%.3g", step / rest);
  return (certainty == Certainty::at_most ? "up to " : "about ") + ms_text(gain_ms) + " a step (" + speed +
         "× the speed)";
}

}  // namespace trainctl
