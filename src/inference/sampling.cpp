#include "inference/sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace trainctl::inference {
namespace {

struct Candidate {
  std::int64_t id = 0;
  double weight = 0;  // first the logit, then a multiple of the probability
};

bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

/// Returns candidates; they are sorted by probability if the sampling truncates them.
std::vector<Candidate> candidates_of(std::span<const float> logits, const Sampling& sampling) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i]) && logits[i] != -INFINITY)
      candidates.push_back({static_cast<std::int64_t>(i), static_cast<double>(logits[i])});
  if (candidates.empty())
    throw core::Error("the model's logits are all NaN or -inf").hint("look at the checkpoint's losses");
  const bool has_infinite = std::any_of(candidates.begin(), candidates.end(),
                                        [](const Candidate& candidate) { return std::isinf(candidate.weight); });
  const bool takes_best = sampling.temperature == 0 || has_infinite;
  const auto keep = takes_best ? 1 : sampling.top_k > 0 ? static_cast<std::size_t>(sampling.top_k) : candidates.size();
  if (keep < candidates.size()) {
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(keep);
    std::partial_sort(candidates.begin(), end, candidates.end(), is_likelier);
    candidates.resize(keep);
  } else if (sampling.top_p < 1) {
    std::sort(candidates.begin(), candidates.end(), is_likelier);
  }
  return candidates;
}

}  // namespace

std::int64_t sample(std::span<const float> logits, const Sampling& sampling, double uniform) {
  std::vector<Candidate> candidates = candidates_of(logits, sampling);
  if (candidates.size() == 1) return candidates[0].id;
  double largest = candidates[0].weight;
  for (const Candidate& candidate : candidates) largest = std::max(largest, candidate.weight);
  double total = 0;
  for (Candidate& candidate : candidates)
    total += candidate.weight = std::exp((candidate.weight - largest) / sampling.temperature);
  if (sampling.top_p < 1) {
    double reached = 0;
    std::size_t kept = 0;
    while (kept < candidates.size() && (kept == 0 || reached < sampling.top_p * total))
      reached += candidates[kept++].weight;
    candidates.resize(kept);
    total = reached;
  }
  double left = uniform * total;
  for (const Candidate& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0) return candidate.id;
  }
  return candidates.back().id;
}

}  // namespace trainctl::inference
