// Regression of one number per sample, with the mean squared error. The model's outputs and the batches' targets are
// standardized if the labels are; metrics but the loss are in the labels' own units.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <numeric>
#include <span>

#include "core/error.h"
#include "core/text.h"
#include "task/choose_metrics.h"
#include "task/correlation.h"
#include "task/micro_batch.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

/// Returns the mean over the pairs, of which there is at least one.
double mean_absolute(std::span<const double> predicted, std::span<const double> targets) {
  core::ensure(predicted.size() == targets.size(), "each prediction has a target");
  double sum = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) sum += std::abs(predicted[i] - targets[i]);
  return sum / static_cast<double>(targets.size());
}

double mean_square(std::span<const double> predicted, std::span<const double> targets) {
  core::ensure(predicted.size() == targets.size(), "each prediction has a target");
  double sum = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) sum += (predicted[i] - targets[i]) * (predicted[i] - targets[i]);
  return sum / static_cast<double>(targets.size());
}

/// Coefficient of determination: 1 less the squared errors over the targets' squared distances from their mean. For
/// targets that don't vary: 1 if all predictions are right, else 0 (as scikit-learn's r2_score).
double r2(std::span<const double> predicted, std::span<const double> targets) {
  const auto count = static_cast<double>(targets.size());
  const double mean = std::accumulate(targets.begin(), targets.end(), 0.0) / count;
  double variation = 0;
  for (const double target : targets) variation += (target - mean) * (target - mean);
  const double errors = count * mean_square(predicted, targets);
  if (variation == 0) return errors == 0 ? 1 : 0;
  return 1 - errors / variation;
}

/// Returns predictions [B].
at::Tensor predictions(model::Model& model, const model::ModelInput& input) {
  const at::Tensor outputs = model.forward(input);
  if (outputs.dim() != 2 || outputs.size(1) != 1)
    throw core::Error("regression needs one output per sample, but the model has " +
                      core::format_count(outputs.size(-1)))
        .hint("model.num_classes: 1");
  return outputs.select(1, 0).to(at::kFloat);
}

std::vector<double> host_values(const std::vector<at::Tensor>& parts) {
  std::vector<double> values;
  for (const at::Tensor& part : parts) {
    const at::Tensor host = part.to(at::kDouble).cpu().contiguous();
    const auto* begin = host.const_data_ptr<double>();
    values.insert(values.end(), begin, begin + host.numel());
  }
  return values;
}

class RegressionEvaluation final : public Evaluation {
 public:
  RegressionEvaluation(model::Model& model, std::vector<RegressionMetric> metrics, dataset::Standardization labels)
      : model_(model), metrics_(std::move(metrics)), labels_(labels) {}

  void add(const dataset::Batch& batch, const model::ModelInput& input) override {
    const at::NoGradGuard no_grad;
    predicted_.push_back(predictions(model_, input));
    if (on_answers) on_answers(batch, predicted_.back());
    targets_.push_back(batch.targets);
  }

  void pool(Pool& pool) override {
    std::vector<at::Tensor> mine{at::zeros({0, 2}, at::TensorOptions(pool.device()).dtype(at::kFloat))};
    for (std::size_t i = 0; i < predicted_.size(); ++i)
      mine.push_back(at::stack({predicted_[i], targets_[i].to(at::kFloat)}, 1));
    predicted_.clear();
    targets_.clear();
    for (const at::Tensor& rows : pool.gather(at::cat(mine))) {
      predicted_.push_back(rows.select(1, 0));
      targets_.push_back(rows.select(1, 1));
    }
  }

  Metrics metrics() override {
    const std::vector<double> predicted = host_values(predicted_);
    const std::vector<double> targets = host_values(targets_);
    if (targets.empty()) return {};
    Metrics metrics{{"loss", mean_square(predicted, targets)}};
    for (const RegressionMetric metric : metrics_)
      metrics.emplace_back(config::name_of(metric), value_of(metric, predicted, targets));
    return metrics;
  }

  std::string details() override { return ""; }

 private:
  double value_of(RegressionMetric metric, std::span<const double> predicted, std::span<const double> targets) const {
    switch (metric) {
      case RegressionMetric::mae:
        return labels_.deviation * mean_absolute(predicted, targets);
      case RegressionMetric::mse:
        return labels_.deviation * labels_.deviation * mean_square(predicted, targets);
      case RegressionMetric::rmse:
        return labels_.deviation * std::sqrt(mean_square(predicted, targets));
      case RegressionMetric::r2:
        return r2(predicted, targets);
      case RegressionMetric::pearson:
        return pearson(predicted, targets);
      case RegressionMetric::spearman:
        return spearman(predicted, targets);
    }
    return 0;
  }

  model::Model& model_;
  std::vector<RegressionMetric> metrics_;
  dataset::Standardization labels_;
  std::vector<at::Tensor> predicted_;  // [B] each, on the device
  std::vector<at::Tensor> targets_;
};

class Regression final : public Task {
 public:
  explicit Regression(RegressionConfig config) : config_(std::move(config)) {}

  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override { return whole_samples(std::move(batch)); }
  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor targets = micro_batch.batch.targets.to(at::kFloat);
    return {.sum = at::mse_loss(predictions(model, micro_batch.input), targets, at::Reduction::Sum),
            .count = micro_batch.count};
  }
  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<RegressionEvaluation>(model, chosen_metrics(config_, spec), spec.labels);
  }

 private:
  RegressionConfig config_;
};

}  // namespace

std::unique_ptr<Task> build(const RegressionConfig& config, const dataset::SampleSpec&) {
  return std::make_unique<Regression>(config);
}

}  // namespace trainctl::task
