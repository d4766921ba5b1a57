// Ranges out of histograms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "quantization/observer/observer.h"

namespace trainctl::quantization {
namespace {

double total(const std::vector<double>& counts) {
  double sum = 0;
  for (const double count : counts) sum += count;
  return sum;
}

/// Returns the sum of squared differences between values and their levels.
double squared_error(const Histogram& histogram, Range range, const ObserverOptions& options) {
  const QParams levels = levels_of(range, options.bits, options.activations);
  const auto largest = static_cast<double>((std::int64_t{1} << options.bits) - 1);
  double error = 0;
  for (std::int64_t bin = 0; bin < Histogram::kBins; ++bin) {
    const double count = histogram.counts()[static_cast<std::size_t>(bin)];
    if (count == 0) continue;
    const double value = histogram.centre(bin);
    const double level =
        std::clamp(std::nearbyint(value / levels.scale) + static_cast<double>(levels.zero_point), 0.0, largest);
    const double difference = value - (level - static_cast<double>(levels.zero_point)) * levels.scale;
    error += count * difference * difference;
  }
  return error;
}

/// Returns the bins between two thresholds, with outliers in the outermost ones, as quantization clips them.
std::vector<double> clipped(const Histogram& histogram, std::int64_t first, std::int64_t end) {
  const std::vector<double>& counts = histogram.counts();
  std::vector<double> inside(counts.begin() + first, counts.begin() + end);
  for (std::int64_t bin = 0; bin < first; ++bin) inside.front() += counts[static_cast<std::size_t>(bin)];
  for (std::int64_t bin = end; bin < Histogram::kBins; ++bin) inside.back() += counts[static_cast<std::size_t>(bin)];
  return inside;
}

/// Returns the Kullback-Leibler divergence of the clipped values from their copy in `levels` levels.
double divergence(const Histogram& histogram, std::int64_t first, std::int64_t end, std::int64_t levels) {
  const std::vector<double> wanted = clipped(histogram, first, end);
  const double count = total(wanted);
  const auto bins = static_cast<std::int64_t>(wanted.size());
  double sum = 0;
  for (std::int64_t level = 0; level < levels; ++level) {
    const std::int64_t from = level * bins / levels;
    const std::int64_t to = (level + 1) * bins / levels;
    double mass = 0;
    std::int64_t occupied = 0;
    for (std::int64_t bin = from; bin < to; ++bin) {
      const double here = histogram.counts()[static_cast<std::size_t>(first + bin)];
      mass += here;
      occupied += here > 0 ? 1 : 0;
    }
    for (std::int64_t bin = from; bin < to; ++bin) {
      const double p = wanted[static_cast<std::size_t>(bin)] / count;
      if (p == 0) continue;
      const double q = occupied == 0 || histogram.counts()[static_cast<std::size_t>(first + bin)] == 0
                           ? 0
                           : mass / static_cast<double>(occupied) / count;
      sum += p * std::log(p / std::max(q, 1e-9));
    }
  }
  return sum;
}

/// Returns the range of symmetric levels with the least error; its ends move together.
Range least_symmetric_error_range(const Histogram& histogram, Range seen, const ObserverOptions& options) {
  const double largest = std::max(-seen.low, seen.high);
  const auto within = [&](double end) {
    return Range{.low = std::max(-end, seen.low), .high = std::min(end, seen.high)};
  };
  Range best = seen;
  double least = squared_error(histogram, seen, options);
  for (int part = 255; part > 3; --part) {
    const Range now = within(largest * part / 256);
    const double error = squared_error(histogram, now, options);
    if (error >= least) continue;
    least = error;
    best = now;
  }
  return best;
}

}  // namespace

Range least_error_range(const Histogram& histogram, Range seen, const ObserverOptions& options) {
  if (options.activations == ActivationScheme::symmetric) return least_symmetric_error_range(histogram, seen, options);
  const double step = (seen.high - seen.low) / 256;
  if (step <= 0) return seen;
  Range best = seen;
  double least = squared_error(histogram, seen, options);
  Range now = seen;
  // Further in than the first rise: the error of one end may fall again once the other has moved.
  for (int misses = 0; misses < 16 && now.high - now.low > 4 * step;) {
    const Range lower{.low = std::min(now.low + step, 0.0), .high = now.high};
    const Range upper{.low = now.low, .high = std::max(now.high - step, 0.0)};
    const double error_lower =
        now.low < 0 ? squared_error(histogram, lower, options) : std::numeric_limits<double>::max();
    const double error_upper =
        now.high > 0 ? squared_error(histogram, upper, options) : std::numeric_limits<double>::max();
    now = error_lower < error_upper ? lower : upper;
    const double error = std::min(error_lower, error_upper);
    misses = error < least ? 0 : misses + 1;
    if (error < least) {
      least = error;
      best = now;
    }
  }
  return best;
}

Range least_divergence_range(const Histogram& histogram, Range seen, std::int64_t bits) {
  constexpr std::int64_t kMiddle = Histogram::kBins / 2;
  const std::int64_t levels = std::int64_t{1} << bits;
  const auto bins_of = [&](double value) {
    return std::min<std::int64_t>(kMiddle, static_cast<std::int64_t>(std::ceil(std::abs(value) / histogram.width())));
  };
  const std::int64_t most_below = bins_of(seen.low);
  const std::int64_t most_above = bins_of(seen.high);
  const std::int64_t largest = std::max(most_below, most_above);
  Range best = seen;
  double least = std::numeric_limits<double>::max();
  for (std::int64_t bins = std::min(largest, levels / 2); bins <= largest;
       bins += std::max<std::int64_t>(1, largest / 128)) {
    const std::int64_t first = kMiddle - std::min(bins, most_below);
    const std::int64_t end = kMiddle + std::min(bins, most_above);
    if (end - first < 2) continue;
    const double now = divergence(histogram, first, end, std::min(levels, end - first));
    if (now >= least) continue;
    least = now;
    const double threshold = static_cast<double>(bins) * histogram.width();
    best = {.low = std::max(seen.low, -threshold), .high = std::min(seen.high, threshold)};
  }
  return best;
}

Range percentile_range(const Histogram& histogram, Range seen, double percentile) {
  const int num_ends = (seen.low < 0 ? 1 : 0) + (seen.high > 0 ? 1 : 0);  // an end at 0 cuts nothing
  const double outside = total(histogram.counts()) * (1 - percentile / 100) / std::max(num_ends, 1);
  const auto edge = [&](std::int64_t from, std::int64_t step) {
    double passed = 0;
    std::int64_t bin = from;
    for (std::int64_t i = 0; i < Histogram::kBins; ++i, bin += step) {
      passed += histogram.counts()[static_cast<std::size_t>(bin)];
      if (passed > outside) return histogram.centre(bin) - static_cast<double>(step) * histogram.width() / 2;
    }
    return 0.0;
  };
  return {.low = std::clamp(edge(0, 1), seen.low, 0.0),
          .high = std::clamp(edge(Histogram::kBins - 1, -1), 0.0, seen.high)};
}

}  // namespace trainctl::quantization
