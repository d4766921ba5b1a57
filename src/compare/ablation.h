// What each strategy is worth: alone, with all others, and all others without it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compare/strategies.h"

namespace trainctl::compare {

/// Which strategies are on, a bit each.
using StrategySet = std::uint32_t;

struct Variant {
  std::string name;  // "baseline", "amp", "all", "all but amp"
  StrategySet on = 0;
};
/// Each set once: none, each alone, all, all but each.
std::vector<Variant> ablation_variants(const std::vector<Strategy>& strategies);

/// The assignments that make the variant of the experiment.
std::vector<std::string> assignments(const std::vector<Strategy>& strategies, StrategySet on);

/// One run of one variant.
struct Measurement {
  double step_ms = 0;  // median
  double samples_per_s = 0;
  double peak_mib = 0;
  std::vector<double> losses;  // of each step, from the first
};

/// Returns the measurement of a run from the times of its steps, at least one.
Measurement measured(const std::vector<double>& step_ms, double samples_per_step, double peak_mib,
                     std::vector<double> losses);

/// The measurements of a variant, one per round.
struct VariantResult {
  Variant variant;
  std::vector<Measurement> rounds;
};

/// A mean and its 95 % interval.
struct Estimate {
  double mean = 0;
  double low = 0;
  double high = 0;
};

struct VariantFigures {
  double step_ms = 0;  // median over rounds
  double samples_per_s = 0;
  double peak_mib = 0;
  Estimate speedup;     // the baseline's step / this one's, round by round: drift of the machine cancels
  double memory = 1;    // its peak / the baseline's
  double loss_gap = 0;  // of the mean loss over equal steps, relative to the baseline's
};
/// In the order of `results`, whose first is the baseline; every one has the same number of rounds, at least one.
std::vector<VariantFigures> compare_variants(const std::vector<VariantResult>& results);

/// Returns the index of the recommended variant: among candidates within one per cent of the fastest, the one with the
/// least memory. Candidates are the baseline and each variant whose 95 % interval of the speedup lies above 1. A single
/// round gives no such interval.
std::size_t recommended(const std::vector<VariantFigures>& figures);

/// The assignments that the experiment lacks of variant `best`, and those that take away what it has and what surely
/// slows it down. What it has and what makes no sure difference stays.
std::vector<std::string> recommended_changes(const std::vector<Strategy>& strategies,
                                             const std::vector<VariantResult>& results,
                                             const std::vector<VariantFigures>& figures, std::size_t best);

}  // namespace trainctl::compare
