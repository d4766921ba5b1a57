// `task: {kind: poly1_classification, epsilon: 1}`: cross-entropy + epsilon (1 - p), where p is the probability of the
// label (https://arxiv.org/abs/2204.12511).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>

#include "example.h"
#include "task/micro_batch.h"
#include "task/task.h"

namespace example {
namespace {

using namespace trainctl;

enum class Poly1Metric { accuracy };

struct Poly1Config {
  static constexpr std::string_view kind = "poly1_classification";
  static constexpr dataset::Targets targets = dataset::Targets::labels;
  static constexpr task::TaskTraits traits{
      .output = model::Output::per_sample, .has_classes = true, .takes_teacher = false};
  double epsilon = 1;
  std::vector<Poly1Metric> metrics{};

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&Poly1Config::epsilon>("Weight of the first term of the loss's expansion.", config::at_least(-1)),
        field<&Poly1Config::metrics>(task::help::metrics),
    };
  }
  std::vector<config::BrokenRule> broken_rules(const task::Surroundings&) const { return {}; }
};

/// Returns the losses [B] of logits [B, C].
at::Tensor losses_of(const at::Tensor& logits, const at::Tensor& labels, double epsilon) {
  const at::Tensor log_likelihood = at::log_softmax(logits.to(at::kFloat), 1).gather(1, labels.unsqueeze(1)).squeeze(1);
  return log_likelihood.exp().mul(-1).add(1).mul(epsilon).sub(log_likelihood);
}

class Poly1Evaluation final : public task::Evaluation {
 public:
  Poly1Evaluation(model::Model& model, double epsilon) : model_(model), epsilon_(epsilon) {}

  void add(const dataset::Batch& batch, const model::ModelInput& input) override {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = model_.forward(input);
    if (on_answers) on_answers(batch, logits);
    const at::Tensor hits = logits.argmax(1).eq(batch.targets).sum();
    const at::Tensor loss = losses_of(logits, batch.targets, epsilon_).to(at::kDouble).sum();
    loss_ = loss_.defined() ? loss_.add(loss) : loss;
    hits_ = hits_.defined() ? hits_.add(hits) : hits;
    count_ += batch.size();
  }
  void pool(task::Pool& pool) override {
    if (!loss_.defined()) {
      loss_ = at::zeros({}, at::TensorOptions(at::kDouble).device(pool.device()));
      hits_ = at::zeros({}, at::TensorOptions(at::kLong).device(pool.device()));
    }
    pool.sum(loss_);
    pool.sum(hits_);
    pool.sum(count_);
  }
  task::Metrics metrics() override {
    if (count_ == 0) return {};
    const auto count = static_cast<double>(count_);
    return {{"loss", loss_.item<double>() / count}, {"accuracy", hits_.item<double>() / count}};
  }
  std::string details() override { return ""; }

 private:
  model::Model& model_;
  double epsilon_;
  at::Tensor loss_;  // [], double
  at::Tensor hits_;  // [], int64
  std::int64_t count_ = 0;
};

class Poly1 final : public task::Task {
 public:
  explicit Poly1(double epsilon) : epsilon_(epsilon) {}

  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }
  task::MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override {
    return task::whole_samples(std::move(batch));
  }
  task::LossSum loss(model::Model& model, const task::MicroBatch& micro_batch) const override {
    const at::Tensor logits = model.forward(micro_batch.input);
    return {.sum = losses_of(logits, micro_batch.batch.targets, epsilon_).sum(), .count = micro_batch.count};
  }
  std::unique_ptr<task::Evaluation> evaluate(model::Model& model, const dataset::SampleSpec&) override {
    return std::make_unique<Poly1Evaluation>(model, epsilon_);
  }

 private:
  double epsilon_;
};

std::unique_ptr<task::Task> build(const Poly1Config& config, const dataset::SampleSpec&) {
  return std::make_unique<Poly1>(config.epsilon);
}

}  // namespace

void add_task(plugin::Registry& registry) {
  registry.add_task<Poly1Config>();
}

}  // namespace example
