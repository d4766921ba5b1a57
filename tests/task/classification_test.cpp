#include "task/task.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <map>

#include "core/error.h"
#include "task/mixing.h"

namespace trainctl::task::classification_test {
namespace {

/// Gives its input back, flattened: the test writes the logits.
class Echo final : public model::Model {
 public:
  Echo() { add_block("echo", child<Flatten>("echo")); }
  double flops_per_sample() const override { return 0; }
  bool prefers_channels_last() const override { return false; }

 private:
  class Flatten final : public model::UnaryLayer {
   public:
    at::Tensor compute(const at::Tensor& input) override { return input.flatten(1); }
  };
};

dataset::SampleSpec spec_of(std::int64_t classes) {
  return {.input_shape = {classes, 1, 1}, .input_dtype = at::kFloat, .num_classes = classes};
}

dataset::Batch random_batch(std::int64_t size, std::int64_t classes) {
  return {.inputs = at::randn({size, classes, 1, 1}), .targets = at::randint(classes, {size}, at::kLong)};
}

/// Σᵢ -Σₖ q log p with q = (1 - s) onehot + s / K.
double smoothed_cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  const at::Tensor log_p = logits.to(at::kDouble).log_softmax(1);
  const double own = log_p.gather(1, targets.unsqueeze(1)).sum().item<double>();
  return -((1 - smoothing) * own + smoothing * log_p.mean(1).sum().item<double>());
}

TEST_CASE("the loss is a sum with its count, label smoothing included", "[task]") {
  Echo model;
  const dataset::Batch batch = random_batch(9, 7);
  for (const double smoothing : {0.0, 0.1}) {
    const auto task = build(TaskConfig(ClassificationConfig{.label_smoothing = smoothing}), spec_of(7));
    const LossSum loss = task->loss(model, task->prepare(batch, 1));
    CHECK(loss.count == 9);
    CHECK(loss.sum.dim() == 0);
    CHECK(loss.sum.item<double>() ==
          Approx(smoothed_cross_entropy(batch.inputs.flatten(1), batch.targets, smoothing)).epsilon(1e-6));
  }
}

/// Returns the batch as a step passes it on, with the weight of its samples.
dataset::Batch weighed(dataset::Batch batch, const Task& task) {
  batch.weight = task.weight_of(batch);
  return batch;
}

TEST_CASE("class weights divide by the weights of the samples, as PyTorch's cross-entropy does", "[task]") {
  Echo model;
  const dataset::Batch batch = random_batch(32, 3);
  const std::vector<double> weights{0.5, 1, 4};
  for (const double smoothing : {0.0, 0.1}) {
    const auto task =
        build(TaskConfig(ClassificationConfig{.label_smoothing = smoothing, .class_weights = weights}), spec_of(3));
    const LossSum loss = task->loss(model, task->prepare(weighed(batch, *task), 1));
    const at::Tensor mean = at::cross_entropy_loss(
        batch.inputs.flatten(1), batch.targets, at::tensor(weights, at::kFloat), at::Reduction::Mean, -100, smoothing);
    CHECK(loss.sum.item<double>() / loss.count == Approx(mean.item<double>()).epsilon(1e-6));
  }
}

TEST_CASE("balanced class weights are scikit-learn's", "[task]") {
  dataset::SampleSpec spec = spec_of(3);
  spec.class_counts = {1, 3, 8};
  const auto task = build(TaskConfig(ClassificationConfig{.class_weighting = ClassWeighting::balanced}), spec);
  const auto weight = [&](std::int64_t label) {
    return *task->weight_of({.inputs = at::zeros({1, 3, 1, 1}), .targets = at::full({1}, label, at::kLong)});
  };
  CHECK(weight(0) == Approx(12.0 / 3 / 1));
  CHECK(weight(1) == Approx(12.0 / 3 / 3));
  CHECK(weight(2) == Approx(12.0 / 3 / 8));
  CHECK_THROWS_WITH(build(TaskConfig(ClassificationConfig{.class_weighting = ClassWeighting::balanced}), spec_of(3)),
                    Catch::Contains("needs the number of samples of each class"));
  CHECK_THROWS_WITH(build(TaskConfig(ClassificationConfig{.class_weights = {1, 2}}), spec_of(3)),
                    Catch::Contains("has 2 weights, and the dataset has 3 classes"));
}

TEST_CASE("the focal loss is -w (1 - p)^gamma log p", "[task]") {
  Echo model;
  const dataset::Batch batch = random_batch(16, 4);
  const at::Tensor log_p =
      batch.inputs.flatten(1).to(at::kDouble).log_softmax(1).gather(1, batch.targets.unsqueeze(1)).squeeze(1);
  for (const double gamma : {0.5, 2.0}) {
    const auto task = build(TaskConfig(ClassificationConfig{.focal_gamma = gamma}), spec_of(4));
    const double expected = log_p.exp().neg().add(1).pow(gamma).mul(log_p).neg().sum().item<double>();
    CHECK(task->loss(model, task->prepare(batch, 1)).sum.item<double>() == Approx(expected).epsilon(1e-5));
  }
  dataset::Batch sure{.inputs = at::zeros({1, 2, 1, 1}), .targets = at::zeros({1}, at::kLong)};
  sure.inputs[0][0] = 200;
  sure.inputs.requires_grad_(true);
  const auto task = build(TaskConfig(ClassificationConfig{.focal_gamma = 0.5}), spec_of(2));
  task->loss(model, task->prepare(sure, 1)).sum.backward();
  CHECK(sure.inputs.grad().isfinite().all().item<bool>());
}

TEST_CASE("the losses of micro-batches add up to that of the batch", "[task]") {
  Echo model;
  const dataset::Batch batch = random_batch(10, 4);
  const auto task = build(TaskConfig(ClassificationConfig{.label_smoothing = 0.2}), spec_of(4));
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return task->loss(
        model,
        task->prepare({.inputs = batch.inputs.slice(0, begin, end), .targets = batch.targets.slice(0, begin, end)}, 1));
  };
  const LossSum a = part(0, 7);
  const LossSum b = part(7, 10);
  const LossSum all = task->loss(model, task->prepare(batch, 1));
  CHECK(a.count + b.count == all.count);
  CHECK(a.sum.item<double>() + b.sum.item<double>() == Approx(all.sum.item<double>()).epsilon(1e-6));
}

TEST_CASE("mixup and cutmix weigh both labels by their shares of the image", "[task]") {
  Echo model;
  const dataset::Batch batch = random_batch(6, 5);
  for (const ClassificationConfig& config : {ClassificationConfig{.label_smoothing = 0.1, .mixup = 0.8},
                                             ClassificationConfig{.label_smoothing = 0.1, .cutmix = 1.0}}) {
    const auto task = build(TaskConfig(config), spec_of(5));
    for (std::uint64_t key = 0; key < 5; ++key) {
      runtime::Random random(key);
      const Mixed mixed =
          config.mixup > 0 ? mixup(batch.inputs, config.mixup, random) : cutmix(batch.inputs, config.cutmix, random);
      const at::Tensor logits = mixed.images.flatten(1);
      const double expected = mixed.share * smoothed_cross_entropy(logits, batch.targets, 0.1) +
                              (1 - mixed.share) * smoothed_cross_entropy(logits, batch.targets.roll(1, 0), 0.1);
      const LossSum loss = task->loss(model, task->prepare(batch, key));
      CHECK(loss.sum.item<double>() == Approx(expected).epsilon(1e-5));
      CHECK(loss.count == 6);
    }
  }
}

TEST_CASE("with mixup and cutmix each batch takes one of them, by its key alone", "[task]") {
  // Images of one pixel: cutmix takes whole images or none, mixup blends.
  Echo model;
  const dataset::Batch batch = random_batch(6, 5);
  const auto task = build(TaskConfig(ClassificationConfig{.mixup = 1.0, .cutmix = 1.0}), spec_of(5));
  const std::unique_ptr<Task> unmixed = build(TaskConfig(ClassificationConfig{}), spec_of(5));
  const double plain = unmixed->loss(model, unmixed->prepare(batch, 0)).sum.item<double>();
  int unchanged = 0;
  for (std::uint64_t key = 0; key < 40; ++key) {
    const double loss = task->loss(model, task->prepare(batch, key)).sum.item<double>();
    CHECK(task->loss(model, task->prepare(batch, key)).sum.item<double>() == loss);
    if (loss == Approx(plain)) ++unchanged;
  }
  CHECK(unchanged > 5);
  CHECK(unchanged < 35);
}

TEST_CASE("gradients flow through the loss", "[task]") {
  Echo model;
  dataset::Batch batch = random_batch(4, 3);
  batch.inputs.requires_grad_(true);
  const auto task = build(TaskConfig(ClassificationConfig{}), spec_of(3));
  task->loss(model, task->prepare(batch, 1)).sum.backward();
  const at::Tensor probabilities = batch.inputs.detach().flatten(1).softmax(1);
  const at::Tensor expected = probabilities.scatter_add(1, batch.targets.unsqueeze(1), at::full({4, 1}, -1.0));
  CHECK(batch.inputs.grad().flatten(1).sub(expected).abs().max().item<double>() < 1e-6);
}

TEST_CASE("evaluation counts by hand: loss, accuracy, per-class accuracy and confusion", "[task]") {
  Echo model;
  const auto task = build(TaskConfig(ClassificationConfig{.label_smoothing = 0.3}), spec_of(3));
  const auto evaluation = task->evaluate(model, spec_of(3));
  CHECK(evaluation->metrics().empty());
  const auto add = [&](std::vector<float> logits, std::vector<std::int64_t> targets) {
    const auto size = static_cast<std::int64_t>(targets.size());
    evaluation->add({.inputs = at::tensor(logits).view({size, 3, 1, 1}), .targets = at::tensor(targets)});
  };
  add({5, 0, 0, /**/ 0, 5, 0, /**/ 5, 0, 0}, {0, 1, 1});  // right, right, 1 taken for 0
  add({0, 0, 5}, {0});                                    // 0 taken for 2
  const Metrics metrics = evaluation->metrics();
  REQUIRE(metrics.size() == 4);  // three classes: none is the positive one
  CHECK(metrics[0].first == "loss");
  const double right = std::log(std::exp(5.0) + 2) - 5;
  CHECK(metrics[0].second == Approx((2 * right + 2 * (right + 5)) / 4));  // without smoothing
  CHECK(metrics[1] == std::pair<std::string, double>("accuracy", 0.5));
  CHECK(metrics[2].first == "f1_macro");
  CHECK(metrics[2].second == Approx((0.5 + 2.0 / 3 + 0) / 3));
  CHECK(metrics[3].first == "matthews");

  const auto details = nlohmann::json::parse(evaluation->details());
  CHECK(details["num_samples"] == 4);
  CHECK(details["confusion"] == nlohmann::json::parse("[[1, 0, 1], [1, 1, 0], [0, 0, 0]]"));
  CHECK(details["per_class_accuracy"] == nlohmann::json::parse("[0.5, 0.5, null]"));
}

TEST_CASE("top-k accuracies count labels among the k largest, in the order of the config", "[task]") {
  Echo model;
  const auto task = build(TaskConfig(ClassificationConfig{
                              .metrics = {ClassificationMetric::top5_accuracy, ClassificationMetric::top2_accuracy}}),
                          spec_of(8));
  const auto evaluation = task->evaluate(model, spec_of(8));
  const at::Tensor logits =
      at::arange(8, at::kFloat).expand({8, 8}).contiguous().view({8, 8, 1, 1});  // best: 7, then 6, …
  evaluation->add({.inputs = logits, .targets = at::arange(8, at::kLong)});
  const Metrics metrics = evaluation->metrics();
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[1] == std::pair<std::string, double>("top5_accuracy", 5.0 / 8));
  CHECK(metrics[2] == std::pair<std::string, double>("top2_accuracy", 2.0 / 8));
}

TEST_CASE("a dataset that doesn't fit the task or the model is refused", "[task]") {
  CHECK_THROWS_AS(build(TaskConfig(ClassificationConfig{}),
                        dataset::SampleSpec{.input_shape = {1, 28, 28}, .input_dtype = at::kFloat, .num_classes = 0}),
                  core::Error);
  CHECK_THROWS_AS(build(TaskConfig(ClassificationConfig{.mixup = 0.2}),
                        dataset::SampleSpec{.input_shape = {128}, .input_dtype = at::kLong, .num_classes = 9}),
                  core::Error);
  Echo model;
  const auto task = build(TaskConfig(ClassificationConfig{}), spec_of(4));
  CHECK_THROWS_AS(task->loss(model, task->prepare(random_batch(2, 5), 0)), core::Error);
  CHECK_THROWS_AS(task->evaluate(model, spec_of(4))->add(random_batch(2, 5)), core::Error);
}

}  // namespace
}  // namespace trainctl::task::classification_test
