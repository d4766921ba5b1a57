#include "dataset/sampler/interleave.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kLongestPeriod = 1 << 20;
constexpr std::size_t kMostSources = 1 << 16;

/// Returns the weights as integers without a common factor, if their sum is small.
std::vector<std::int64_t> exact_parts(std::span<const double> weights) {
  for (double scale = 1; scale <= 1e9; scale *= 10) {
    std::vector<std::int64_t> parts;
    std::int64_t divisor = 0;
    std::int64_t sum = 0;
    bool whole = true;
    for (const double weight : weights) {
      const double scaled = weight * scale;
      whole = whole && scaled < 1e15 && std::abs(scaled - std::round(scaled)) <= 1e-12 * scaled && scaled >= 0.5;
      if (!whole) break;
      parts.push_back(std::llround(scaled));
      divisor = std::gcd(divisor, parts.back());
      sum += parts.back();
    }
    if (!whole) continue;
    if (sum / divisor > kLongestPeriod) return {};
    for (std::int64_t& part : parts) part /= divisor;
    return parts;
  }
  return {};
}

/// Divides kLongestPeriod by the largest remainders; no part is 0.
std::vector<std::int64_t> rounded_parts(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> parts;
  std::vector<double> remainders;
  std::int64_t left = kLongestPeriod;
  for (const double weight : weights) {
    const double exact = weight / sum * static_cast<double>(kLongestPeriod);
    parts.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(exact)));
    remainders.push_back(exact - static_cast<double>(parts.back()));
    left -= parts.back();
  }
  for (; left != 0; left -= left > 0 ? 1 : -1) {
    const auto chosen = left > 0 ? std::max_element(remainders.begin(), remainders.end())
                                 : std::min_element(remainders.begin(), remainders.end());
    parts[static_cast<std::size_t>(chosen - remainders.begin())] += left > 0 ? 1 : -1;
    *chosen += left > 0 ? -1 : 1;
  }
  return parts;
}

}  // namespace

Mixing::Mixing(std::span<const double> weights) {
  core::ensure(!weights.empty() && weights.size() < kMostSources, "a mixture has sources");
  for (const double weight : weights)
    if (!(weight > 0) || !std::isfinite(weight)) throw core::Error("a mixture's weights must be positive numbers");
  parts_ = exact_parts(weights);
  if (parts_.empty()) parts_ = rounded_parts(weights);
  make_pattern();
}

/// Gives turn j of a source with `part` turns per `period` a place in [⌊j period / part⌋, ⌈(j + 1) period / part⌉).
/// Each place goes to the source with the earliest deadline, among those whose interval has begun.
void Mixing::make_pattern() {
  const std::int64_t period = std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0});
  std::vector<std::int64_t> taken(parts_.size());
  for (std::int64_t t = 0; t < period; ++t) {
    std::size_t best = parts_.size();
    std::int64_t soonest = period + 1;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (taken[i] == parts_[i] || taken[i] * period / parts_[i] > t) continue;
      const std::int64_t deadline = ((taken[i] + 1) * period + parts_[i] - 1) / parts_[i];
      if (deadline < soonest) soonest = deadline, best = i;
    }
    if (parts_.size() == 2) best = (t + 1) * parts_[0] / period > t * parts_[0] / period ? 0 : 1;
    core::ensure(best < parts_.size(), "a turn of some source may come");
    sources_.push_back(static_cast<std::uint16_t>(best));
    ranks_.push_back(static_cast<std::uint32_t>(taken[best]++));
  }
}

Mixing::Turn Mixing::at(std::int64_t position) const {
  const auto turn = static_cast<std::size_t>(position % period());
  return {.source = sources_[turn], .rank = position / period() * parts_[sources_[turn]] + ranks_[turn]};
}

std::int64_t Mixing::count_before(std::size_t source, std::int64_t position) const {
  const std::int64_t whole = position / period() * parts_[source];
  for (auto turn = static_cast<std::size_t>(position % period()); turn > 0; --turn)
    if (sources_[turn - 1] == source) return whole + ranks_[turn - 1] + 1;
  return whole;
}

}  // namespace trainctl::dataset
