// Direct preference optimisation (https://arxiv.org/abs/2305.18290).
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "runtime/fake_tensor.h"
#include "runtime/span.h"
#include "task/choose_metrics.h"
#include "task/micro_batch.h"
#include "task/preference_pairs.h"
#include "task/task.h"
#include "task/tasks.h"
#include "task/teacher.h"

namespace trainctl::task {
namespace {

/// Margins and losses of pairs, beside a reference (https://arxiv.org/abs/2305.18290, equation 7).
struct PairScores {
  at::Tensor losses;   // [B, P], differentiable; 0 where there is no pair
  at::Tensor rewards;  // [B, P, 2]: beta times how much likelier an answer is than for the reference
  at::Tensor is_pair;  // bool [B, P]
};

/// The loss and the rewards of a set of preferences, summed on the device.
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

class Dpo final : public Task {
 public:
  Dpo(DpoConfig config, std::shared_ptr<model::Model> reference)
      : config_(std::move(config)), reference_(std::move(reference)) {}

  /// Returns the number of pairs, each of which counts as one.
  std::optional<double> weight_of(const dataset::Batch& batch) const override {
    if (runtime::FakeTensorScope::is_active()) return std::nullopt;
    return static_cast<double>(num_pairs(batch));
  }
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override { return whole_samples(std::move(batch)); }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const AnswerSums reference = sums_of_reference(micro_batch);
    const AnswerSums policy = answer_sums(model, micro_batch.input, micro_batch.batch, chunk_size());
    return {.sum = score_pairs(config_, policy, reference).losses.sum(), .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    require_reference();
    return std::make_unique<DpoEvaluation>(
        model, reference_,
        DpoEvaluation::Options{
            .config = config_, .metrics = chosen_metrics(config_, spec), .chunk_size = chunk_size()});
  }

 private:
  std::int64_t chunk_size() const { return config_.loss_chunk_size.value.value_or(0); }

  AnswerSums sums_of_reference(const MicroBatch& micro_batch) const {
    require_reference();
    const runtime::Span span("reference");
    const at::NoGradGuard no_grad;
    return answer_sums(*reference_, whole_input(micro_batch.input), micro_batch.batch, chunk_size());
  }

  void require_reference() const {
    if (reference_ == nullptr)
      throw core::Error("dpo compares with a reference, and none was named")
          .hint("set model.init_from, or task.reference");
  }

  DpoConfig config_;
  std::shared_ptr<model::Model> reference_;
};

}  // namespace

std::unique_ptr<Task> build(const DpoConfig& config, const dataset::SampleSpec&,
                            std::shared_ptr<model::Model> reference) {
  return std::make_unique<Dpo>(config, std::move(reference));
}

}  // namespace trainctl::task
