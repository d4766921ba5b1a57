// Training losses beside a teacher, against PyTorch's kl_div.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "task/task.h"
#include "token_models.h"

namespace trainctl::task::distillation_test {
namespace {

using testing::TableLanguageModel;
using testing::TableModel;

constexpr double kTemperature = 2.5;
constexpr double kWeight = 0.3;

/// A factor of its input.
class ScalingModel final : public model::Model {
 public:
  explicit ScalingModel(double factor) { add_block("scaled", child<Scaled>("scaled", factor)); }
  double flops_per_sample() const override { return 0; }

 private:
  class Scaled final : public model::UnaryLayer {
   public:
    explicit Scaled(double factor) : factor_(factor) {}
    at::Tensor compute(const at::Tensor& input) override { return input.mul(factor_); }

   private:
    double factor_;
  };
};

Companions teacher_of(std::unique_ptr<model::Model> network) {
  DistillationConfig config;
  config.temperature = kTemperature;
  config.weight = kWeight;
  return {.teacher = std::make_shared<const Teacher>(std::move(network), config)};
}

/// The sum of (1 - w) cross-entropy + w T² KL over rows of logits [N, C] that have a target.
double expected_loss(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& targets) {
  const at::Tensor valid = targets.ge(0).to(at::kDouble).unsqueeze(1);
  const at::Tensor towards = at::kl_div(at::log_softmax(student.to(at::kDouble).div(kTemperature), 1),
                                        at::log_softmax(teacher.to(at::kDouble).div(kTemperature), 1),
                                        at::Reduction::None, /*log_target=*/true)
                                 .mul(valid);
  const double own = at::cross_entropy_loss(student.to(at::kDouble), targets, {}, at::Reduction::Sum).item<double>();
  return (1 - kWeight) * own + kWeight * kTemperature * kTemperature * towards.sum().item<double>();
}

dataset::SampleSpec spec_of(dataset::Targets targets, std::int64_t num_classes) {
  dataset::SampleSpec spec;
  spec.num_classes = num_classes;
  spec.targets = targets;
  return spec;
}

TEST_CASE("classification and segmentation are trained towards a teacher's probabilities", "[task]") {
  ScalingModel student(1);
  const dataset::Batch samples{.inputs = at::randn({6, 4}), .targets = at::randint(4, {6}, at::kLong)};
  auto task = build(TaskConfig(ClassificationConfig{}), spec_of(dataset::Targets::labels, 4),
                    teacher_of(std::make_unique<ScalingModel>(-2)));
  LossSum loss = task->loss(student, task->prepare(samples, 1));
  CHECK(loss.count == 6);
  CHECK(loss.sum.item<double>() ==
        Approx(expected_loss(samples.inputs, samples.inputs.mul(-2), samples.targets)).epsilon(1e-5));

  dataset::Batch pixels{.inputs = at::randn({2, 3, 4, 5}), .targets = at::randint(3, {2, 4, 5}, at::kLong)};
  pixels.targets[0].select(0, 1).fill_(-100);
  task = build(TaskConfig(SemanticSegmentationConfig{}), spec_of(dataset::Targets::class_masks, 3),
               teacher_of(std::make_unique<ScalingModel>(-2)));
  pixels.weight = task->weight_of(pixels);
  loss = task->loss(student, task->prepare(pixels, 1));
  CHECK(loss.count == 35);
  const at::Tensor rows = pixels.inputs.permute({0, 2, 3, 1}).flatten(0, 2);
  CHECK(loss.sum.item<double>() == Approx(expected_loss(rows, rows.mul(-2), pixels.targets.flatten())).epsilon(1e-5));
}

TEST_CASE("mixed images are the teacher's input, too", "[task]") {
  ScalingModel student(1);
  dataset::SampleSpec spec = spec_of(dataset::Targets::labels, 3);
  spec.input_shape = {3, 1, 1};
  class Flat final : public model::UnaryLayer {
   public:
    at::Tensor compute(const at::Tensor& input) override { return input.flatten(1); }
  };
  class FlatModel final : public model::Model {
   public:
    FlatModel() { add_block("flat", child<Flat>("flat")); }
    double flops_per_sample() const override { return 0; }
  } flat;
  const auto task =
      build(TaskConfig(ClassificationConfig{.mixup = 1}), spec, teacher_of(std::make_unique<FlatModel>()));
  const MicroBatch mixed =
      task->prepare({.inputs = at::randn({8, 3, 1, 1}), .targets = at::randint(3, {8}, at::kLong)}, 3);
  const at::Tensor logits = mixed.input.values.flatten(1).to(at::kDouble);
  const auto own = [&](const at::Tensor& targets) {
    return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum).item<double>();
  };
  const double both = mixed.share * own(mixed.batch.targets) + (1 - mixed.share) * own(mixed.batch.targets.roll(1));
  CHECK(task->loss(flat, mixed).sum.item<double>() == Approx((1 - kWeight) * both).epsilon(1e-5));  // KL is 0
}

TEST_CASE("tokens with a target are trained towards a teacher's probabilities, whatever the chunks", "[task]") {
  constexpr std::int64_t kVocabulary = 19;
  dataset::Batch batch{.inputs = at::randint(kVocabulary, {3, 8}, at::kLong),
                       .targets = at::randint(kVocabulary, {3, 8}, at::kLong)};
  const at::Tensor left_out = at::randint(4, {3, 8}, at::kLong).ge(1);
  batch.targets.masked_fill_(left_out, -100);
  batch.target_positions = batch.targets.flatten().ge(0).nonzero().squeeze(1);
  const at::Tensor ids = batch.inputs.flatten();

  const at::Tensor own = at::randn({kVocabulary, kVocabulary});
  const at::Tensor theirs = at::randn({kVocabulary, kVocabulary});
  TableModel tagger(own);
  const auto tags = build(TaskConfig(TokenClassificationConfig{}), spec_of(dataset::Targets::token_labels, kVocabulary),
                          teacher_of(std::make_unique<TableModel>(theirs)));
  CHECK(tags->loss(tagger, tags->prepare(batch, 1)).sum.item<double>() ==
        Approx(expected_loss(own.index_select(0, ids), theirs.index_select(0, ids), batch.targets.flatten()))
            .epsilon(1e-5));

  const at::Tensor small = at::randn({kVocabulary, 4});
  const at::Tensor wide = at::randn({kVocabulary, 12});
  const at::Tensor head = at::randn({kVocabulary, 4}).requires_grad_();
  const at::Tensor teachers_head = at::randn({kVocabulary, 12}).requires_grad_();
  TableLanguageModel student(small, head, {});
  const auto logits = [&](const at::Tensor& table, const at::Tensor& weight) {
    return table.index_select(0, ids).mul(0.5).matmul(weight.t()).detach();
  };
  for (const std::int64_t chunk : {1, 5, 1000}) {
    dataset::SampleSpec spec = spec_of(dataset::Targets::next_tokens, 0);
    spec.vocab_size = kVocabulary;
    const auto task = build(TaskConfig(CausalLmConfig{.loss_chunk_size = {chunk}}), spec,
                            teacher_of(std::make_unique<TableLanguageModel>(wide, teachers_head, at::Tensor())));
    const LossSum loss = task->loss(student, task->prepare(batch, 1));
    CHECK(
        loss.sum.item<double>() ==
        Approx(expected_loss(logits(small, head), logits(wide, teachers_head), batch.targets.flatten())).epsilon(1e-5));
    loss.sum.backward();
    CHECK(head.grad().defined());
    CHECK_FALSE(teachers_head.grad().defined());
  }
}

TEST_CASE("a teacher with other outputs is refused", "[task]") {
  class Narrow final : public model::UnaryLayer {
   public:
    at::Tensor compute(const at::Tensor& input) override { return input.narrow(1, 0, 2); }
  };
  class NarrowModel final : public model::Model {
   public:
    NarrowModel() { add_block("narrow", child<Narrow>("narrow")); }
    double flops_per_sample() const override { return 0; }
  };
  ScalingModel student(1);
  const auto task = build(TaskConfig(ClassificationConfig{}), spec_of(dataset::Targets::labels, 4),
                          teacher_of(std::make_unique<NarrowModel>()));
  CHECK_THROWS_WITH(
      task->loss(student, task->prepare({.inputs = at::randn({2, 4}), .targets = at::randint(4, {2}, at::kLong)}, 1)),
      "distillation.teacher has 2 outputs, and the trained network has 4");
}

}  // namespace
}  // namespace trainctl::task::distillation_test
