// How well scores rank the samples of a class before all others: exact, from sorted scores with their ties.
#pragma once

#include <vector>

namespace trainctl::task {

struct ScoredSample {
  float score = 0;
  bool is_positive = false;  // of the class
};

struct RankingMetrics {
  double auroc = 0;              // nan if there are no positive samples, or no others
  double average_precision = 0;  // nan if there are no positive samples
};

/// Area under the ROC curve (https://doi.org/10.1016/j.patrec.2005.10.010), and average precision: the sum over
/// thresholds of precision × growth in recall. Samples with equal scores share a threshold. nan if a score is nan.
RankingMetrics ranking_metrics(std::vector<ScoredSample> samples);

}  // namespace trainctl::task
