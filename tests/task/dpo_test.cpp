// Direct preference optimisation against its formulas, written out token by token.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <map>

#include "core/error.h"
#include "task/task.h"
#include "token_models.h"

namespace trainctl::task::dpo_test {
namespace {

using testing::TableLanguageModel;

constexpr std::int64_t kVocabulary = 23;

dataset::SampleSpec preferences_spec() {
  return {.input_shape = {12},
          .input_dtype = at::kLong,
          .vocab_size = kVocabulary,
          .targets = dataset::Targets::preferences};
}

/// Two rows: two pairs, and one pair with padding behind it.
dataset::Batch pairs_batch() {
  dataset::Batch batch{.inputs = at::randint(kVocabulary, {2, 12}, at::kLong),
                       .targets = at::randint(kVocabulary, {2, 12}, at::kLong)};
  batch.documents = at::tensor({0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3,  //
                                0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2},
                               at::kLong)
                        .view({2, 12});
  const at::Tensor learned = at::tensor({0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0,  //
                                         0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0},
                                        at::kLong)
                                 .view({2, 12});
  batch.targets = batch.targets.masked_fill(learned.eq(0), -100);
  batch.target_positions = learned.flatten().nonzero().squeeze(1);
  return batch;
}

struct Network {
  at::Tensor table = at::randn({kVocabulary, 6}, at::kDouble).requires_grad_();
  at::Tensor weight = at::randn({kVocabulary, 6}, at::kDouble).requires_grad_();

  std::unique_ptr<TableLanguageModel> model() const {
    return std::make_unique<TableLanguageModel>(table, weight, at::Tensor());
  }
  /// Sum of log-probabilities and number of learned tokens, by row and document.
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<at::Tensor, double>> answers(
      const dataset::Batch& batch) const {
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<at::Tensor, double>> sums;
    for (std::int64_t row = 0; row < batch.size(); ++row)
      for (std::int64_t t = 0; t < batch.inputs.size(1); ++t) {
        const auto target = batch.targets[row][t].item<std::int64_t>();
        if (target < 0) continue;
        const at::Tensor logits = table[batch.inputs[row][t].item<std::int64_t>()].mul(0.5).matmul(weight.t());
        auto& [sum, count] = sums[{row, batch.documents[row][t].item<std::int64_t>()}];
        const at::Tensor own = at::log_softmax(logits, 0)[target];
        sum = sum.defined() ? sum + own : own;
        count += 1;
      }
    return sums;
  }
};

at::Tensor plain_loss(const DpoConfig& config, const Network& policy, const Network& reference,
                      const dataset::Batch& batch) {
  const auto ours = policy.answers(batch);
  const auto theirs = reference.answers(batch);
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const auto& [place, answer] : ours) {
    const auto& [row, document] = place;
    if (document % 2 == 1) continue;
    const auto likelier = [&](std::int64_t number) {
      const auto& [sum, count] = ours.at({row, number});
      const at::Tensor difference = sum - theirs.at({row, number}).first.detach();
      return config.loss_type == PreferenceLoss::ipo ? difference / count : difference;
    };
    const at::Tensor margin = likelier(document) - likelier(document + 1);
    switch (config.loss_type) {
      case PreferenceLoss::sigmoid:
        loss = loss - (1 - config.label_smoothing) * at::log_sigmoid(margin * config.beta) -
               config.label_smoothing * at::log_sigmoid(margin * -config.beta);
        break;
      case PreferenceLoss::hinge:
        loss = loss + (1 - margin * config.beta).relu();
        break;
      case PreferenceLoss::ipo:
        loss = loss + (margin - 1 / (2 * config.beta)).square();
    }
  }
  return loss;
}

TEST_CASE("dpo's losses and gradients are those of their formulas, whatever the chunks", "[task]") {
  const Network policy;
  const Network reference;
  const dataset::Batch batch = pairs_batch();
  for (const PreferenceLoss type : {PreferenceLoss::sigmoid, PreferenceLoss::hinge, PreferenceLoss::ipo})
    for (const std::int64_t chunk : {1, 4, 100}) {
      DpoConfig config{.beta = 0.3, .loss_type = type};
      config.loss_chunk_size = chunk;
      if (type == PreferenceLoss::sigmoid) config.label_smoothing = 0.1;
      const auto task = build(TaskConfig(config), preferences_spec(), {.reference = reference.model()});
      dataset::Batch weighed = batch;
      weighed.weight = task->weight_of(batch);
      const auto model = policy.model();
      const LossSum loss = task->loss(*model, task->prepare(weighed, 1));
      CHECK(loss.count == 3);
      const at::Tensor expected = plain_loss(config, policy, reference, batch);
      CHECK(loss.sum.item<double>() == Approx(expected.item<double>()).epsilon(1e-12));
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& one : {loss.sum, expected}) {
        for (const at::Tensor& leaf : {policy.table, policy.weight}) leaf.mutable_grad() = at::Tensor();
        one.backward();
        for (const at::Tensor& leaf : {policy.table, policy.weight}) gradients.push_back(leaf.grad().clone());
      }
      CHECK(gradients[0].sub(gradients[2]).abs().max().item<double>() < 1e-12);
      CHECK(gradients[1].sub(gradients[3]).abs().max().item<double>() < 1e-12);
    }
  CHECK_FALSE(reference.weight.grad().defined());
}

TEST_CASE("dpo's rewards are beta times how much likelier an answer is than for the reference", "[task]") {
  const Network policy;
  const Network reference;
  const dataset::Batch batch = pairs_batch();
  DpoConfig config{.beta = 0.3, .label_smoothing = 0.2};
  config.metrics = {DpoMetric::reward_accuracy, DpoMetric::reward_margin, DpoMetric::chosen_reward,
                    DpoMetric::rejected_reward};
  const auto task = build(TaskConfig(config), preferences_spec(), {.reference = reference.model()});
  const auto model = policy.model();
  const auto evaluation = task->evaluate(*model, preferences_spec());
  evaluation->add(batch);
  evaluation->add(batch);
  const Metrics metrics = evaluation->metrics();

  const auto ours = policy.answers(batch);
  const auto theirs = reference.answers(batch);
  double chosen = 0;
  double rejected = 0;
  double hits = 0;
  for (const auto& [place, answer] : ours) {
    if (place.second % 2 == 1) continue;
    const auto reward = [&](std::int64_t number) {
      const std::pair key{place.first, number};
      return 0.3 * (ours.at(key).first - theirs.at(key).first).item<double>();
    };
    chosen += reward(place.second) / 3;
    rejected += reward(place.second + 1) / 3;
    hits += reward(place.second) > reward(place.second + 1) ? 1.0 / 3 : 0;
  }
  config.label_smoothing = 0;
  CHECK(metrics[0].second == Approx(plain_loss(config, policy, reference, batch).item<double>() / 3));
  CHECK(metrics[1].second == Approx(hits));
  CHECK(metrics[2].second == Approx(chosen - rejected));
  CHECK(metrics[3].second == Approx(chosen));
  CHECK(metrics[4].second == Approx(rejected));
}

TEST_CASE("dpo without a reference neither trains nor evaluates", "[task]") {
  const auto task = build(TaskConfig(DpoConfig{}), preferences_spec());
  const auto model = Network().model();
  CHECK_THROWS_WITH(task->loss(*model, task->prepare(pairs_batch(), 1)),
                    "dpo compares with a reference, and none was named");
  CHECK_THROWS_WITH(task->evaluate(*model, preferences_spec()), "dpo compares with a reference, and none was named");
}

}  // namespace
}  // namespace trainctl::task::dpo_test
