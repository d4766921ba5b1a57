#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "task/task.h"

namespace trainctl::task::image_tasks_test {
namespace {

/// Gives its input back as its output.
class SameModel final : public model::Model {
 public:
  SameModel() { add_block("same", child<Same>("same")); }
  double flops_per_sample() const override { return 0; }
  bool prefers_channels_last() const override { return false; }

 private:
  class Same final : public model::UnaryLayer {
   public:
    at::Tensor compute(const at::Tensor& input) override { return input; }
  };
};

dataset::SampleSpec spec_of(dataset::Targets targets, std::int64_t num_classes) {
  dataset::SampleSpec spec;
  spec.num_classes = num_classes;
  spec.targets = targets;
  return spec;
}

dataset::Batch labels_batch() {
  return {.inputs = at::randn({6, 4}), .targets = at::randint(2, {6, 4}, at::kLong)};
}

dataset::Batch pixels_batch() {
  dataset::Batch batch{.inputs = at::randn({2, 3, 4, 5}), .targets = at::randint(3, {2, 4, 5}, at::kLong)};
  batch.targets[0].select(0, 1).fill_(-100);
  return batch;
}

/// Returns the mean loss of a batch, as a step computes it.
double mean_loss(const Task& task, dataset::Batch batch) {
  SameModel model;
  batch.weight = task.weight_of(batch);
  const LossSum loss = task.loss(model, task.prepare(batch, 1));
  return loss.sum.item<double>() / loss.count;
}

TEST_CASE("the loss of several labels is PyTorch's BCEWithLogitsLoss", "[task]") {
  const dataset::Batch batch = labels_batch();
  const std::vector<double> weights{0.5, 1, 2, 4};
  for (const auto& pos_weight : {std::vector<double>(), weights}) {
    const auto task = build(TaskConfig(MultiLabelClassificationConfig{.pos_weight = pos_weight}),
                            spec_of(dataset::Targets::label_sets, 4));
    const at::Tensor weight = pos_weight.empty() ? at::Tensor() : at::tensor(pos_weight, at::kFloat);
    const at::Tensor expected = at::binary_cross_entropy_with_logits(batch.inputs, batch.targets.to(at::kFloat), {},
                                                                     weight, at::Reduction::Mean);
    CHECK(mean_loss(*task, batch) == Approx(expected.item<double>()).epsilon(1e-6));
  }
}

TEST_CASE("the loss of pixels is PyTorch's cross-entropy over the pixels with a class", "[task]") {
  const dataset::Batch batch = pixels_batch();
  const std::vector<double> weights{0.5, 1, 4};
  for (const auto& class_weights : {std::vector<double>(), weights}) {
    const auto task = build(TaskConfig(SemanticSegmentationConfig{.class_weights = class_weights}),
                            spec_of(dataset::Targets::class_masks, 3));
    const at::Tensor weight = class_weights.empty() ? at::Tensor() : at::tensor(class_weights, at::kFloat);
    const at::Tensor expected = at::cross_entropy_loss(batch.inputs, batch.targets, weight, at::Reduction::Mean, -100);
    CHECK(mean_loss(*task, batch) == Approx(expected.item<double>()).epsilon(1e-6));
  }
}

TEST_CASE("an evaluation tells the precision of each label", "[task]") {
  dataset::SampleSpec spec = spec_of(dataset::Targets::label_sets, 3);
  spec.class_names = {"cat", "dog", "none"};
  SameModel model;
  const auto evaluation = build(TaskConfig(MultiLabelClassificationConfig()), spec)->evaluate(model, spec);
  CHECK(evaluation->details().empty());
  evaluation->add({.inputs = at::tensor({2.0F, -1.0F, -3.0F, -2.0F, 1.0F, -3.0F}).view({2, 3}),
                   .targets = at::tensor({1, 0, 0, 0, 1, 0}).to(at::kLong).view({2, 3})});
  const auto details = nlohmann::json::parse(evaluation->details());
  CHECK(details["num_samples"] == 2);
  CHECK(details["per_class_average_precision"] == nlohmann::json({1.0, 1.0, nullptr}));
  CHECK(details["per_class_f1"] == nlohmann::json({1.0, 1.0, nullptr}));
  CHECK(details["samples_with_label"] == nlohmann::json({1, 1, 0}));
}

TEST_CASE("f1_macro of several labels counts 0 for a label that never occurs", "[task][regression]") {
  const dataset::SampleSpec spec = spec_of(dataset::Targets::label_sets, 3);
  SameModel model;
  const MultiLabelClassificationConfig config{.metrics = {MultiLabelMetric::f1_macro}};
  const auto evaluation = build(TaskConfig(config), spec)->evaluate(model, spec);
  evaluation->add({.inputs = at::tensor({2.0F, -1.0F, -3.0F, -2.0F, 1.0F, -3.0F}).view({2, 3}),
                   .targets = at::tensor({1, 0, 0, 0, 1, 0}).to(at::kLong).view({2, 3})});
  const Metrics metrics = evaluation->metrics();
  REQUIRE(metrics.back().first == "f1_macro");
  CHECK(metrics.back().second == Approx(2.0 / 3));  // f1_score(average="macro", zero_division=0)
}

TEST_CASE("an evaluation tells the intersection over union of each class, and counts pixels", "[task]") {
  const dataset::SampleSpec spec = spec_of(dataset::Targets::class_masks, 3);
  SameModel model;
  const auto evaluation = build(TaskConfig(SemanticSegmentationConfig()), spec)->evaluate(model, spec);
  at::Tensor scores = at::zeros({1, 3, 1, 4});
  scores.select(1, 0).fill_(1);
  scores[0][1][0][3].fill_(2);  // predictions are 0 0 0 1
  evaluation->add({.inputs = scores, .targets = at::tensor({0, 0, 1, -100}).to(at::kLong).view({1, 1, 4})});
  const auto details = nlohmann::json::parse(evaluation->details());
  CHECK(details["num_pixels"] == 3);
  CHECK(details["per_class_iou"][0].get<double>() == Approx(2.0 / 3));
  CHECK(details["per_class_iou"][1] == 0.0);
  CHECK(details["per_class_iou"][2].is_null());
  CHECK(details["confusion"] == nlohmann::json({{2, 0, 0}, {1, 0, 0}, {0, 0, 0}}));
}

TEST_CASE("outputs and weights that don't fit the classes are refused", "[task]") {
  CHECK_THROWS_WITH(
      build(TaskConfig(MultiLabelClassificationConfig{.pos_weight = {1}}), spec_of(dataset::Targets::label_sets, 2)),
      Catch::Contains("task.pos_weight has 1 weights, and the dataset has 2 classes"));
  CHECK_THROWS_WITH(
      build(TaskConfig(SemanticSegmentationConfig{.class_weights = {1}}), spec_of(dataset::Targets::class_masks, 2)),
      Catch::Contains("task.class_weights has 1 weights, and the dataset has 2 classes"));
  const auto task = build(TaskConfig(SemanticSegmentationConfig()), spec_of(dataset::Targets::class_masks, 7));
  CHECK_THROWS_WITH(mean_loss(*task, pixels_batch()), Catch::Contains("[2, 3, 4, 5]; expected [2, 7, 4, 5]"));
  CHECK_THROWS_WITH(build(TaskConfig(ClassificationConfig()), spec_of(dataset::Targets::label_sets, 2)),
                    Catch::Contains("the dataset's targets are for multi_label_classification"));
}

}  // namespace
}  // namespace trainctl::task::image_tasks_test
