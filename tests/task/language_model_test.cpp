#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "task/task.h"
#include "token_models.h"

namespace trainctl::task::language_model_test {
namespace {

using testing::TableLanguageModel;
using testing::TableModel;

constexpr std::int64_t kVocabulary = 37;

dataset::SampleSpec spec_of(dataset::Targets targets, double bytes_per_token = 0) {
  std::shared_future<double> counted;
  if (bytes_per_token > 0) counted = std::async(std::launch::deferred, [=] { return bytes_per_token; }).share();
  return {.input_shape = {12},
          .input_dtype = at::kLong,
          .vocab_size = kVocabulary,
          .targets = targets,
          .bytes_per_token = counted};
}

struct Setting {
  at::Tensor table = at::randn({kVocabulary, 8}).requires_grad_();
  at::Tensor weight = at::randn({kVocabulary, 8}).requires_grad_();
  at::Tensor bias = at::randn({kVocabulary}).requires_grad_();
  dataset::Batch batch{.inputs = at::randint(kVocabulary, {3, 12}, at::kLong),
                       .targets = at::randint(kVocabulary, {3, 12}, at::kLong)};
  TableLanguageModel model{table, weight, bias};

  /// Leaves targets in a few places only.
  void mask() {
    const at::Tensor chosen = at::randint(4, {3, 12}, at::kLong).eq(0);
    chosen[0][0].fill_(true);
    batch.targets = batch.targets.where(chosen, at::full_like(batch.targets, -100));
    batch.target_positions = chosen.flatten().nonzero().squeeze(1);
  }
  at::Tensor plain_loss(double smoothing) {
    const at::Tensor logits = table.index_select(0, batch.inputs.flatten()).mul(0.5).matmul(weight.t()).add(bias);
    return at::cross_entropy_loss(logits, batch.targets.flatten(), {}, at::Reduction::Sum, -100, smoothing);
  }
  std::vector<at::Tensor> gradients_of(const at::Tensor& loss) {
    for (at::Tensor* tensor : {&table, &weight, &bias}) tensor->mutable_grad() = at::Tensor();
    loss.backward();
    return {table.grad(), weight.grad(), bias.grad()};
  }
};

void check_against_plain(Setting& s, const TaskConfig& config, double smoothing, dataset::Targets targets) {
  const auto task = build(config, spec_of(targets));
  const LossSum loss = task->loss(s.model, task->prepare(s.batch, 1));
  const std::int64_t expected_count = s.batch.targets.ge(0).sum().item<std::int64_t>();
  CHECK(loss.count == expected_count);
  const at::Tensor plain = s.plain_loss(smoothing);
  CHECK(loss.sum.item<double>() == Approx(plain.item<double>()).epsilon(1e-6));
  const auto gradients = s.gradients_of(loss.sum);
  const auto expected = s.gradients_of(plain);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(gradients[i].sub(expected[i]).abs().max().item<double>() < 1e-5);
}

TEST_CASE("a causal language model's loss and gradients are those of plain cross-entropy, whatever the chunks",
          "[task]") {
  Setting setting;
  for (const double smoothing : {0.0, 0.1})
    for (const std::int64_t chunk : {0, 1, 5, 1000}) {
      CausalLmConfig config{.label_smoothing = smoothing, .loss_chunk_size = {}};
      if (chunk > 0) config.loss_chunk_size = chunk;
      check_against_plain(setting, config, smoothing, dataset::Targets::next_tokens);
    }
}

TEST_CASE("targets of -100 count nothing, whether few or many", "[task]") {
  Setting few;
  few.mask();
  check_against_plain(few, MaskedLmConfig{}, 0, dataset::Targets::masked_tokens);
  check_against_plain(few, CausalLmConfig{.label_smoothing = 0.1}, 0.1, dataset::Targets::next_tokens);
  check_against_plain(few, Seq2SeqLmConfig{.label_smoothing = 0.1}, 0.1, dataset::Targets::target_tokens);
  Setting most;
  most.batch.targets[1][3] = -100;
  most.batch.target_positions = most.batch.targets.flatten().ge(0).nonzero().squeeze(1);
  check_against_plain(most, CausalLmConfig{}, 0, dataset::Targets::next_tokens);
}

TEST_CASE("a masked language model's head sees only what was masked", "[task]") {
  Setting setting;
  setting.mask();
  const auto task = build(TaskConfig(MaskedLmConfig{}), spec_of(dataset::Targets::masked_tokens));
  task->loss(setting.model, task->prepare(setting.batch, 1));
  CHECK(setting.model.head.num_rows == setting.batch.target_positions.size(0));
}

TEST_CASE("a batch in which nothing was masked has a loss of nothing", "[task]") {
  Setting setting;
  setting.batch.targets.fill_(-100);
  setting.batch.target_positions = setting.batch.targets.flatten().ge(0).nonzero().squeeze(1);
  const auto task = build(TaskConfig(MaskedLmConfig{}), spec_of(dataset::Targets::masked_tokens));
  const LossSum loss = task->loss(setting.model, task->prepare(setting.batch, 1));
  CHECK(loss.count == 0);
  CHECK(loss.sum.item<double>() == 0);
  const auto evaluation = task->evaluate(setting.model, spec_of(dataset::Targets::masked_tokens));
  evaluation->add(setting.batch);
  CHECK(evaluation->metrics().empty());
}

TEST_CASE("perplexity and bits per byte follow from the loss over all batches", "[task]") {
  Setting setting;
  const auto task =
      build(TaskConfig(CausalLmConfig{.label_smoothing = 0.3}), spec_of(dataset::Targets::next_tokens, 2));
  const auto evaluation = task->evaluate(setting.model, spec_of(dataset::Targets::next_tokens, 4.5));
  double sum = 0;
  std::int64_t count = 0;
  for (const std::int64_t rows : {3, 1}) {
    setting.batch.inputs = at::randint(kVocabulary, {rows, 12}, at::kLong);
    setting.batch.targets = at::randint(kVocabulary, {rows, 12}, at::kLong);
    evaluation->add(setting.batch);
    sum += setting.plain_loss(0).item<double>();
    count += rows * 12;
  }
  const Metrics metrics = evaluation->metrics();
  const double loss = sum / static_cast<double>(count);
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[0].first == "loss");
  CHECK(metrics[0].second == Approx(loss));
  CHECK(metrics[1].first == "perplexity");
  CHECK(metrics[1].second == Approx(std::exp(loss)));
  CHECK(metrics[2].first == "bits_per_byte");
  CHECK(metrics[2].second == Approx(loss / std::numbers::ln2 / 4.5));  // of the evaluation set's text
  CHECK(evaluation->details() == "{\"num_tokens\": 48}");
}

TEST_CASE("a masked language model's accuracy is of the masked tokens", "[task]") {
  Setting setting;
  setting.mask();
  const at::Tensor logits = setting.table.index_select(0, setting.batch.inputs.flatten())
                                .mul(0.5)
                                .matmul(setting.weight.t())
                                .add(setting.bias);
  const at::Tensor targets = setting.batch.targets.flatten();
  targets[setting.batch.target_positions[0].item<std::int64_t>()] =
      logits.argmax(1)[setting.batch.target_positions[0].item<std::int64_t>()];  // one at least is right
  const double hits = logits.argmax(1).eq(targets).sum().item<double>();
  for (const std::int64_t chunk : {0, 2}) {
    MaskedLmConfig config;
    if (chunk > 0) config.loss_chunk_size = chunk;
    const auto evaluation = build(TaskConfig(config), spec_of(dataset::Targets::masked_tokens))
                                ->evaluate(setting.model, spec_of(dataset::Targets::masked_tokens));
    evaluation->add(setting.batch);
    const Metrics metrics = evaluation->metrics();
    REQUIRE(metrics.size() == 3);
    const auto count = static_cast<double>(setting.batch.target_positions.size(0));
    CHECK(metrics[0].second == Approx(setting.plain_loss(0).item<double>() / count));
    CHECK(metrics[2].first == "accuracy");
    CHECK(metrics[2].second == Approx(hits / count));
  }
}

TEST_CASE("a task on data of another kind is refused, and the right one named", "[task]") {
  CHECK_THROWS_WITH(build(TaskConfig(ClassificationConfig{}), spec_of(dataset::Targets::next_tokens)),
                    "task.kind is classification, but the dataset's targets are for causal_lm");
  CHECK_THROWS_AS(build(TaskConfig(CausalLmConfig{}), spec_of(dataset::Targets::masked_tokens)), core::Error);
  TableModel model(at::randn({kVocabulary, 8}));
  const auto task = build(TaskConfig(CausalLmConfig{}), spec_of(dataset::Targets::next_tokens));
  CHECK_THROWS_AS(task->loss(model, task->prepare(Setting().batch, 1)), core::Error);
}

}  // namespace
}  // namespace trainctl::task::language_model_test
