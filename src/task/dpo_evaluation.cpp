#include "task/dpo_evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>

#include "task/teacher.h"

namespace trainctl::task {
namespace {

/// Returns the losses [B, P] of pairs from how much likelier the preferred answer is than the other, compared with the
/// reference.
at::Tensor losses_of(const DpoConfig& config, const at::Tensor& margins) {
  const double smoothing = config.label_smoothing;
  const at::Tensor scaled = margins.mul(config.beta);
  switch (config.loss_type) {
    case PreferenceLoss::sigmoid:
      return at::log_sigmoid(scaled).mul(smoothing - 1).sub(at::log_sigmoid(scaled.neg()), smoothing);
    case PreferenceLoss::hinge:
      return scaled.neg().add(1).relu();
    case PreferenceLoss::ipo:
      return margins.sub(1 / (2 * config.beta)).square();
  }
  throw std::logic_error("unknown loss_type");
}

}  // namespace

PairScores score_pairs(const DpoConfig& config, const AnswerSums& policy, const AnswerSums& reference) {
  at::Tensor likelier = policy.log_probs.sub(reference.log_probs);  // [B, P, 2]
  PairScores scores{.losses = {}, .rewards = likelier.detach().mul(config.beta), .is_pair = have_pairs(policy)};
  if (config.loss_type == PreferenceLoss::ipo) likelier = likelier.div(policy.tokens.clamp_min(1));
  scores.losses = losses_of(config, likelier.select(2, 0).sub(likelier.select(2, 1))).mul(scores.is_pair);
  return scores;
}

void DpoEvaluation::add(const dataset::Batch& batch, const model::ModelInput& input) {
  const at::NoGradGuard no_grad;
  DpoConfig config = options_.config;
  config.label_smoothing = 0;
  const AnswerSums reference = answer_sums(*reference_, whole_input(input), batch, options_.chunk_size);
  const PairScores scores = score_pairs(config, answer_sums(model_, input, batch, options_.chunk_size), reference);
  const at::Tensor chosen = scores.rewards.select(2, 0).mul(scores.is_pair).to(at::kDouble);
  const at::Tensor rejected = scores.rewards.select(2, 1).mul(scores.is_pair).to(at::kDouble);
  const at::Tensor sums = at::stack({scores.is_pair.sum().to(at::kDouble), scores.losses.to(at::kDouble).sum(),
                                     chosen.gt(rejected).sum().to(at::kDouble), chosen.sum(), rejected.sum()});
  sums_ = sums_.defined() ? sums_.add(sums) : sums;
}

void DpoEvaluation::pool(Pool& pool) {
  if (!sums_.defined()) sums_ = at::zeros({5}, at::TensorOptions(pool.device()).dtype(at::kDouble));
  pool.sum(sums_);
}

double DpoEvaluation::value_of(DpoMetric metric, const at::Tensor& means) const {
  const auto mean = [&](std::int64_t i) { return means[i].item<double>(); };
  switch (metric) {
    case DpoMetric::reward_accuracy:
      return mean(2);
    case DpoMetric::reward_margin:
      return mean(3) - mean(4);
    case DpoMetric::chosen_reward:
      return mean(3);
    case DpoMetric::rejected_reward:
      return mean(4);
  }
  throw std::logic_error("unknown metric");
}

Metrics DpoEvaluation::metrics() {
  const at::Tensor sums = sums_.defined() ? sums_.cpu() : at::zeros({5}, at::kDouble);
  const at::Tensor means = sums.div(sums[0]);  // NaN without pairs
  Metrics metrics{{"loss", means[1].item<double>()}};
  for (const DpoMetric metric : options_.metrics)
    metrics.emplace_back(std::string(config::name_of(metric)), value_of(metric, means));
  return metrics;
}

}  // namespace trainctl::task
