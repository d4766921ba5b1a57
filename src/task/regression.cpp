// Regression of one number per sample, with the mean squared error.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "core/error.h"
#include "core/text.h"
#include "task/correlation.h"
#include "task/micro_batch.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

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
  explicit RegressionEvaluation(model::Model& model) : model_(model) {}

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
    double squares = 0;
    for (std::size_t i = 0; i < targets.size(); ++i)
      squares += (predicted[i] - targets[i]) * (predicted[i] - targets[i]);
    return {{"loss", squares / static_cast<double>(targets.size())},
            {"pearson", pearson(predicted, targets)},
            {"spearman", spearman(predicted, targets)}};
  }

  std::string details() override { return ""; }

 private:
  model::Model& model_;
  std::vector<at::Tensor> predicted_;  // [B] each, on the device
  std::vector<at::Tensor> targets_;
};

class Regression final : public Task {
 public:
  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override { return whole_samples(std::move(batch)); }
  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor targets = micro_batch.batch.targets.to(at::kFloat);
    return {.sum = at::mse_loss(predictions(model, micro_batch.input), targets, at::Reduction::Sum),
            .count = micro_batch.count};
  }
  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec&) override {
    return std::make_unique<RegressionEvaluation>(model);
  }
};

}  // namespace

std::unique_ptr<Task> build(const RegressionConfig&, const dataset::SampleSpec&) {
  return std::make_unique<Regression>();
}

}  // namespace trainctl::task
