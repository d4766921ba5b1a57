#include "task/ranking.h"

#include <algorithm>
#include <cmath>

namespace trainctl::task {

RankingMetrics ranking_metrics(std::vector<ScoredSample> samples) {
  const double none = std::nan("");
  if (std::any_of(samples.begin(), samples.end(), [](const ScoredSample& one) { return std::isnan(one.score); }))
    return {.auroc = none, .average_precision = none};
  std::sort(samples.begin(), samples.end(),
            [](const ScoredSample& a, const ScoredSample& b) { return a.score > b.score; });
  const auto positives = static_cast<double>(
      std::count_if(samples.begin(), samples.end(), [](const ScoredSample& one) { return one.is_positive; }));
  const double negatives = static_cast<double>(samples.size()) - positives;
  double ordered = 0;  // pairs in which the positive sample has the higher score; ties count half
  double precisions = 0;
  double hits = 0;
  for (std::size_t begin = 0; begin < samples.size();) {
    double own_hits = 0;
    std::size_t end = begin;
    for (; end < samples.size() && samples[end].score == samples[begin].score; ++end)
      if (samples[end].is_positive) ++own_hits;
    const double own_others = static_cast<double>(end - begin) - own_hits;
    ordered += own_others * (hits + own_hits / 2);
    hits += own_hits;
    precisions += own_hits * hits / static_cast<double>(end);
    begin = end;
  }
  return {.auroc = positives > 0 && negatives > 0 ? ordered / (positives * negatives) : none,
          .average_precision = positives > 0 ? precisions / positives : none};
}

}  // namespace trainctl::task
