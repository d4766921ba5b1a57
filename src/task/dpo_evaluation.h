// The loss and the rewards of a set of preferences, summed on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "task/preference_pairs.h"
#include "task/task.h"

namespace trainctl::task {

/// Margins and losses of pairs, beside a reference (https://arxiv.org/abs/2305.18290, equation 7).
struct PairScores {
  at::Tensor losses;   // [B, P], differentiable; 0 where there is no pair
  at::Tensor rewards;  // [B, P, 2]: beta times how much likelier an answer is than for the reference
  at::Tensor is_pair;  // bool [B, P]
};
PairScores score_pairs(const DpoConfig& config, const AnswerSums& policy, const AnswerSums& reference);

class DpoEvaluation final : public Evaluation {
 public:
  struct Options {
    DpoConfig config;
    std::vector<DpoMetric> metrics;
    std::int64_t chunk_size;
  };
  DpoEvaluation(model::Model& model, std::shared_ptr<model::Model> reference, Options options)
      : model_(model), reference_(std::move(reference)), options_(std::move(options)) {}

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// The mean loss of a pair, without label smoothing, and the chosen metrics.
  Metrics metrics() override;
  std::string details() override { return ""; }

 private:
  double value_of(DpoMetric metric, const at::Tensor& means) const;

  model::Model& model_;
  std::shared_ptr<model::Model> reference_;
  Options options_;
  at::Tensor sums_;  // [5], double: pairs, losses, pairs whose preferred answer has the larger reward, both rewards
};

}  // namespace trainctl::task
