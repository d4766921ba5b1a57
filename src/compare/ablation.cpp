#include "compare/ablation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/median.h"

namespace trainctl::compare {
namespace {

constexpr double kAsFast = 1.01;

template <class Field>
double median_of(const VariantResult& result, const Field& field) {
  std::vector<double> values;
  for (const Measurement& round : result.rounds) values.push_back(round.*field);
  return core::median(std::move(values));
}

/// Returns the two-sided 95 % quantile of Student's t for these degrees of freedom.
double t_quantile(std::size_t freedom) {
  constexpr std::array<double, 10> kSmall{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  return freedom <= kSmall.size() ? kSmall.at(freedom - 1) : 1.96 + 2.4 / static_cast<double>(freedom);
}

/// Estimates the geometric mean of ratios and its interval. A single ratio has an unbounded interval.
Estimate estimate(const std::vector<double>& ratios) {
  const double count = static_cast<double>(ratios.size());
  double mean = 0;
  for (const double ratio : ratios) mean += std::log(ratio) / count;
  if (ratios.size() < 2) return {.mean = std::exp(mean), .low = 0, .high = INFINITY};
  double variance = 0;
  for (const double ratio : ratios) variance += std::pow(std::log(ratio) - mean, 2) / (count - 1);
  const double reach = t_quantile(ratios.size() - 1) * std::sqrt(variance / count);
  return {.mean = std::exp(mean), .low = std::exp(mean - reach), .high = std::exp(mean + reach)};
}

double mean_loss(const Measurement& measurement) {
  double sum = 0;
  for (const double loss : measurement.losses) sum += loss;
  return measurement.losses.empty() ? 0 : sum / static_cast<double>(measurement.losses.size());
}

}  // namespace

Measurement measured(const std::vector<double>& step_ms, double samples_per_step, double peak_mib,
                     std::vector<double> losses) {
  const double middle = core::median(step_ms);
  return {.step_ms = middle,
          .samples_per_s = samples_per_step / (middle / 1e3),
          .peak_mib = peak_mib,
          .losses = std::move(losses)};
}

std::vector<Variant> ablation_variants(const std::vector<Strategy>& strategies) {
  const StrategySet all = (StrategySet{1} << strategies.size()) - 1;
  std::vector<Variant> candidates{{"baseline", 0}};
  for (std::size_t i = 0; i < strategies.size(); ++i) candidates.push_back({strategies[i].name, StrategySet{1} << i});
  candidates.push_back({"all", all});
  for (std::size_t i = 0; i < strategies.size(); ++i)
    candidates.push_back({"all but " + strategies[i].name, all & ~(StrategySet{1} << i)});
  std::vector<Variant> variants;
  std::set<StrategySet> seen;
  for (Variant& candidate : candidates)
    if (seen.insert(candidate.on).second) variants.push_back(std::move(candidate));
  return variants;
}

std::vector<std::string> assignments(const std::vector<Strategy>& strategies, StrategySet on) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const std::vector<std::string>& its = (on >> i & 1) != 0 ? strategies[i].on : strategies[i].off;
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

std::vector<std::string> recommended_changes(const std::vector<Strategy>& strategies,
                                             const std::vector<VariantResult>& results,
                                             const std::vector<VariantFigures>& figures, std::size_t best) {
  const auto surely_slows = [&](StrategySet alone) {
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].variant.on == alone) return std::isfinite(figures[i].speedup.high) && figures[i].speedup.high < 1;
    return false;
  };
  std::vector<std::string> changes;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const StrategySet alone = StrategySet{1} << i;
    const bool wanted = (results[best].variant.on & alone) != 0;
    const Strategy& strategy = strategies[i];
    if (wanted && !strategy.is_on) changes.insert(changes.end(), strategy.on.begin(), strategy.on.end());
    if (!wanted && strategy.is_on && surely_slows(alone))
      changes.insert(changes.end(), strategy.off.begin(), strategy.off.end());
  }
  return changes;
}

std::vector<VariantFigures> compare_variants(const std::vector<VariantResult>& results) {
  core::ensure(!results.empty() && !results.front().rounds.empty(), "there is a baseline");
  const VariantResult& baseline = results.front();
  const double baseline_loss = mean_loss(baseline.rounds.front());
  std::vector<VariantFigures> all;
  for (const VariantResult& result : results) {
    core::ensure(result.rounds.size() == baseline.rounds.size(), "every variant has every round");
    std::vector<double> ratios;
    for (std::size_t i = 0; i < result.rounds.size(); ++i)
      ratios.push_back(baseline.rounds[i].step_ms / result.rounds[i].step_ms);
    VariantFigures figures{.step_ms = median_of(result, &Measurement::step_ms),
                           .samples_per_s = median_of(result, &Measurement::samples_per_s),
                           .peak_mib = median_of(result, &Measurement::peak_mib),
                           .speedup = estimate(ratios)};
    figures.memory = figures.peak_mib / median_of(baseline, &Measurement::peak_mib);
    figures.loss_gap = baseline_loss == 0 ? 0 : mean_loss(result.rounds.front()) / baseline_loss - 1;
    all.push_back(figures);
  }
  return all;
}

std::size_t recommended(const std::vector<VariantFigures>& figures) {
  const auto counts = [&](std::size_t i) {
    const Estimate& speedup = figures[i].speedup;
    return i == 0 || (std::isfinite(speedup.high) && speedup.low > 1);
  };
  double fastest = 0;
  for (std::size_t i = 0; i < figures.size(); ++i)
    if (counts(i)) fastest = std::max(fastest, figures[i].speedup.mean);
  std::size_t best = 0;
  double least = INFINITY;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (!counts(i) || figures[i].speedup.mean * kAsFast < fastest || figures[i].peak_mib >= least) continue;
    least = figures[i].peak_mib;
    best = i;
  }
  return best;
}

}  // namespace trainctl::compare
