#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "task/task.h"
#include "token_models.h"

namespace trainctl::task::token_classification_test {
namespace {

using testing::TableModel;

const std::vector<std::string> kTags{"O", "B-PER", "I-PER"};

dataset::SampleSpec spec_of(std::vector<std::string> names) {
  return {.input_shape = {4},
          .input_dtype = at::kLong,
          .num_classes = 3,
          .vocab_size = 3,
          .targets = dataset::Targets::token_labels,
          .class_names = std::move(names)};
}

/// Two sequences of four tokens; a token's id is the class that is predicted for it.
dataset::Batch batch_of(std::vector<std::int64_t> predicted, std::vector<std::int64_t> targets) {
  dataset::Batch batch{.inputs = at::tensor(predicted).view({2, 4}), .targets = at::tensor(targets).view({2, 4})};
  if (batch.targets.lt(0).any().item<bool>())
    batch.target_positions = batch.targets.flatten().ge(0).nonzero().squeeze(1);
  return batch;
}

TEST_CASE("the loss of token classes is over tokens that have one", "[task]") {
  const at::Tensor table = at::randn({3, 3});
  TableModel model(table);
  const auto task = build(TaskConfig(TokenClassificationConfig{.label_smoothing = 0.1}), spec_of({}));
  const dataset::Batch batch = batch_of({0, 1, 2, 0, 1, 1, 2, 0}, {0, -100, 2, -100, -100, 1, -100, -100});
  const LossSum loss = task->loss(model, task->prepare(batch, 1));
  CHECK(loss.count == 3);
  const at::Tensor expected = at::cross_entropy_loss(table.index_select(0, batch.inputs.flatten()),
                                                     batch.targets.flatten(), {}, at::Reduction::Sum, -100, 0.1);
  CHECK(loss.sum.item<double>() == Approx(expected.item<double>()).epsilon(1e-6));
}

TEST_CASE("spans count as wholes, within one sequence", "[task]") {
  TableModel model(at::eye(3).mul(9));
  const auto evaluation =
      build(TaskConfig(TokenClassificationConfig{}), spec_of(kTags))->evaluate(model, spec_of(kTags));
  // Expected: [1, 3) and [0, 2); found: [1, 3) and [0, 1). A span never reaches into the next sequence.
  evaluation->add(batch_of({0, 1, 2, 0, 1, 0, 0, 0}, {0, 1, 2, 0, 1, 2, 0, -100}));
  const Metrics metrics = evaluation->metrics();
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[1].first == "accuracy");
  CHECK(metrics[1].second == Approx(6.0 / 7));
  CHECK(metrics[2].first == "span_f1");
  CHECK(metrics[2].second == Approx(0.5));
  const auto details = nlohmann::json::parse(evaluation->details());
  CHECK(details["num_tokens"] == 7);
  CHECK(details["class_names"] == nlohmann::json(kTags));
  CHECK(details["per_class_accuracy"] == nlohmann::json::parse("[1.0, 1.0, 0.5]"));
}

TEST_CASE("without tags the F1 is the classes' mean", "[task]") {
  TableModel model(at::eye(3).mul(9));
  const auto evaluation = build(TaskConfig(TokenClassificationConfig{}), spec_of({}))->evaluate(model, spec_of({}));
  evaluation->add(batch_of({0, 1, 2, 0, 1, 0, 0, 0}, {0, 1, 2, 0, 1, 2, 0, 0}));
  const Metrics metrics = evaluation->metrics();
  CHECK(metrics[2].first == "f1_macro");
  CHECK(metrics[2].second == Approx((2.0 * 4 / 9 + 1 + 2.0 / 3) / 3));
}

TEST_CASE("a model with one row a sequence can't classify tokens", "[task]") {
  class Pooled final : public model::Model {
   public:
    Pooled() { add_block("first", child<First>("first")); }
    double flops_per_sample() const override { return 0; }

   private:
    class First final : public model::UnaryLayer {
     public:
      at::Tensor compute(const at::Tensor& ids) override { return ids.to(at::kFloat).narrow(1, 0, 3); }
    };
  } model;
  const auto task = build(TaskConfig(TokenClassificationConfig{}), spec_of({}));
  CHECK_THROWS_AS(task->loss(model, task->prepare(batch_of({0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}), 1)),
                  core::Error);
}

TEST_CASE("regression: squared errors, and correlations over all batches", "[task]") {
  class Number final : public model::Model {
   public:
    Number() { add_block("number", child<First>("number")); }
    double flops_per_sample() const override { return 0; }

   private:
    class First final : public model::UnaryLayer {
     public:
      at::Tensor compute(const at::Tensor& ids) override { return ids.to(at::kFloat); }
    };
  } model;
  const dataset::SampleSpec spec{
      .input_shape = {1}, .input_dtype = at::kLong, .vocab_size = 9, .targets = dataset::Targets::values};
  const auto task = build(TaskConfig(RegressionConfig{}), spec);
  const auto batch = [](std::vector<std::int64_t> outputs, std::vector<float> targets) {
    return dataset::Batch{.inputs = at::tensor(outputs).unsqueeze(1), .targets = at::tensor(targets)};
  };
  const LossSum loss = task->loss(model, task->prepare(batch({1, 2}, {1.5, 4}), 1));
  CHECK(loss.count == 2);
  CHECK(loss.sum.item<double>() == Approx(4.25));
  const auto evaluation = task->evaluate(model, spec);
  evaluation->add(batch({1, 2}, {2, 1}));
  evaluation->add(batch({2, 4, 5}, {4, 4, 9}));
  const Metrics metrics = evaluation->metrics();
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[0].second == Approx((1 + 1 + 4 + 0 + 16) / 5.0));
  CHECK(metrics[1].second == Approx(0.8391609102).epsilon(1e-9));
  CHECK(metrics[2].second == Approx(0.7631578947).epsilon(1e-9));
  dataset::SampleSpec standardized = spec;
  standardized.labels = {.mean = 1e9, .deviation = 10};
  const auto in_units = build(TaskConfig(RegressionConfig{.metrics = {RegressionMetric::mae, RegressionMetric::mse,
                                                                      RegressionMetric::rmse, RegressionMetric::r2}}),
                              standardized)
                            ->evaluate(model, standardized);
  in_units->add(batch({1, 2}, {2, 4}));
  const Metrics told = in_units->metrics();
  REQUIRE(told.size() == 5);
  CHECK(told[0].second == Approx(2.5));  // the loss, of standardized labels
  CHECK(told[1].second == Approx(15));
  CHECK(told[2].second == Approx(250));
  CHECK(told[3].second == Approx(std::sqrt(250)));
  CHECK(told[4].second == Approx(1 - 5 / 2.0));
}

}  // namespace
}  // namespace trainctl::task::token_classification_test
