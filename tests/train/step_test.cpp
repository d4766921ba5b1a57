#include "train/loop/step.h"

#include <catch2/catch.hpp>

#include "changed_loader.h"
#include "double_run.h"
#include "small_run.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// Weights after `steps` steps of `micro_batches` × `batch_size`, with dropout, but without BatchNorm (whose result
/// depends on the micro-batch).
std::vector<at::Tensor> train(std::int64_t batch_size, std::int64_t micro_batches, int steps, at::ScalarType dtype,
                              std::int64_t num_samples) {
  experiment::Experiment experiment = small_experiment();
  experiment.dataset.source = dataset::SyntheticImagesConfig{
      .num_samples = num_samples, .num_eval_samples = 0, .channels = 1, .height = 8, .width = 8, .num_classes = 4};
  experiment.model.network = model::CnnConfig{.channels = {4, 8}, .hidden = 16, .dropout = 0.2};
  experiment.optimizer.rule = optimizer::SgdConfig{};
  experiment.optimizer.lr = 0.05;
  experiment.optimizer.weight_decay = 1e-3;
  experiment.optimizer.clip_norm = 1.0;
  experiment.dataset.batch_size = batch_size;
  experiment.accumulation.steps = micro_batches;
  const std::unique_ptr<Run> run = build_run(experiment);
  if (dtype == at::kDouble) make_double(*run);
  Step step(*run);
  for (int i = 0; i < steps; ++i) step(GradNorm::measure);
  return weights_of(*run);
}

}  // namespace

TEST_CASE("accumulating 4 micro-batches of 32 equals one batch of 128 after 10 steps", "[train]") {
  CHECK(largest_difference(train(32, 4, 10, at::kFloat, 1280), train(128, 1, 10, at::kFloat, 1280)) < 1e-6);
  CHECK(largest_difference(train(32, 4, 10, at::kDouble, 1280), train(128, 1, 10, at::kDouble, 1280)) < 1e-12);
}

TEST_CASE("accumulation is exact where the epoch's last step is ragged", "[train]") {
  // 300 = 128 + 128 + 44: the third step of each epoch has one full and one short micro-batch.
  CHECK(largest_difference(train(32, 4, 10, at::kFloat, 300), train(128, 1, 10, at::kFloat, 300)) < 1e-6);
  CHECK(largest_difference(train(32, 4, 10, at::kDouble, 300), train(128, 1, 10, at::kDouble, 300)) < 1e-12);
}

TEST_CASE("BatchNorm's statistics after a full cycle are those of the whole batch", "[train]") {
  const auto running = [](std::int64_t batch_size, std::int64_t micro_batches) {
    experiment::Experiment experiment = small_experiment();
    experiment.model.network = model::CnnConfig{.channels = {4}, .batch_norm = true, .hidden = 0};
    experiment.dataset.batch_size = batch_size;
    experiment.accumulation = {.steps = micro_batches, .batch_norm_update = BatchNormUpdate::per_step};
    const std::unique_ptr<Run> run = build_run(experiment);
    Step step(*run);
    step(GradNorm::only_to_clip);
    std::vector<at::Tensor> buffers;
    for (const model::NamedTensor& named : model::named_buffers(*run->model)) buffers.push_back(named.tensor.clone());
    return buffers;
  };
  // The first convolution sees the same input either way; its statistics are taken before the first update.
  CHECK(largest_difference(running(32, 4), running(128, 1)) < 1e-6);
}

TEST_CASE("on another number of ranks BatchNorm's statistics take as many updates in a step as before", "[train]") {
  // Running mean, running variance, number of batches: after a step of `global_batch` samples.
  const auto running = [](std::int64_t batch_size, std::int64_t micro_batches, std::int64_t global_batch) {
    experiment::Experiment experiment = small_experiment();
    experiment.model.network = model::CnnConfig{.channels = {4}, .batch_norm = true, .hidden = 0};
    experiment.dataset.batch_size = batch_size;
    experiment.accumulation.steps = micro_batches;
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.global_batch = global_batch});
    Step step(*run);
    step(GradNorm::only_to_clip);
    std::map<std::string, at::Tensor> buffers;
    for (const model::NamedTensor& named : model::named_buffers(*run->model))
      buffers[named.name.substr(named.name.rfind('.') + 1)] = named.tensor.to(at::kDouble);
    return buffers;
  };
  // Two ranks made two micro-batches of 32 each; alone, four are pooled by twos.
  auto before = running(64, 2, 0);
  auto alone = running(32, 2, 128);
  CHECK(alone.at("num_batches_tracked").item<double>() == 2);
  CHECK(alone.at("running_mean").sub(before.at("running_mean")).abs().max().item<double>() < 1e-6);
  CHECK(alone.at("running_var").sub(before.at("running_var")).abs().max().item<double>() < 1e-6);
  // One rank made two micro-batches of 64; of two ranks each makes one, which counts twice: 1 - 0.9² instead of 0.1.
  auto once = running(64, 1, 64);
  auto twice = running(64, 2, 64);
  CHECK(once.at("num_batches_tracked").item<double>() == 1);
  CHECK(twice.at("num_batches_tracked").item<double>() == 2);
  const at::Tensor mean = once.at("running_mean").mul(1.9);                   // from 0
  const at::Tensor variance = once.at("running_var").sub(1).mul(1.9).add(1);  // from 1
  CHECK(twice.at("running_mean").sub(mean).abs().max().item<double>() < 1e-6);
  CHECK(twice.at("running_var").sub(variance).abs().max().item<double>() < 1e-6);
}

TEST_CASE("a step with a non-finite batch leaves no trace when it is skipped", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.on_non_finite = NonFinite::skip;
  const std::unique_ptr<Run> run = build_run(experiment);
  Step step(*run);
  step(GradNorm::measure);
  const std::vector<at::Tensor> before = weights_of(*run);

  run->data.train = std::make_unique<ChangedLoader>(std::move(run->data.train), [](dataset::Batch& batch) {
    batch.inputs.select(0, 0).fill_(std::numeric_limits<float>::quiet_NaN());
  });
  const StepResult result = step(GradNorm::only_to_clip);
  CHECK(result.skipped.item<float>() == 1);
  CHECK(run->num_skipped.item<double>() == 1);
  CHECK(largest_difference(before, weights_of(*run)) == 0);
  CHECK(std::isfinite(run->window[0].item<double>()));
}

TEST_CASE("a step that overflows in fp16 leaves no trace, with one micro-batch or more", "[train][regression]") {
  for (const std::int64_t micro_batches : {1, 2}) {
    CAPTURE(micro_batches);
    experiment::Experiment experiment = small_experiment();
    experiment.accumulation.steps = micro_batches;
    const std::unique_ptr<Run> run = build_run(experiment);
    amp::AmpConfig config;
    config.mode = amp::Precision::fp16;
    run->scaler = amp::LossScaler(config, run->device);  // without fp16's rounding
    run->data.train = std::make_unique<ChangedLoader>(std::move(run->data.train), [](dataset::Batch& batch) {
      batch.inputs.select(0, 0).fill_(std::numeric_limits<float>::infinity());
    });
    Step step(*run);
    const std::vector<at::Tensor> before = weights_of(*run);
    CHECK(step(GradNorm::only_to_clip).skipped.item<float>() == 1);
    CHECK(largest_difference(before, weights_of(*run)) == 0);
  }
}

}  // namespace trainctl::train
