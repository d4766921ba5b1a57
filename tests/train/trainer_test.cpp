#include "train/loop/trainer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "small_run.h"
#include "train/run/restore.h"

namespace trainctl::train {

using namespace testing;

namespace {

struct TrainedRun {
  std::vector<at::Tensor> weights;
  std::vector<tracking::StepLogged> records;
};

TrainedRun train(const experiment::Experiment& experiment, const std::filesystem::path& directory,
                 const std::optional<std::filesystem::path>& resume_from = {}) {
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  if (resume_from) restore(*run, *resume_from, {}, log);
  Trainer trainer(*run, log, stop, {.run_directory = directory, .config = {}});
  trainer.run();
  return {weights_of(*run), log.all<tracking::StepLogged>()};
}

std::string notices_of_building(const experiment::Experiment& experiment) {
  std::vector<tracking::Notice> notices;
  build(experiment, notices);
  std::string text;
  for (const tracking::Notice& notice : notices) text += notice.text;
  return text;
}

}  // namespace

TEST_CASE("a run whose device fails is recorded with its first error", "[train][regression]") {
  const std::unique_ptr<Run> run = build_run(small_experiment());
  EventLog log;
  const StopSignal stop;
  const testing::TemporaryDirectory directory;
  Trainer trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}, .on_step = [&](std::int64_t step) {
                                      if (step < 2) return;
                                      // A GPU does so after a fault: every later read throws.
                                      run->num_skipped = at::empty({}, at::TensorOptions(at::kMeta).dtype(at::kDouble));
                                      throw core::Error("an illegal memory access");
                                    }});
  CHECK_THROWS_WITH(trainer.run(), Catch::Contains("an illegal memory access"));
  REQUIRE(log.all<tracking::RunFinished>().size() == 1);
  CHECK(log.all<tracking::RunFinished>().front().outcome == tracking::Outcome::failed);
  CHECK(log.all<tracking::RunFinished>().front().error == "an illegal memory access");
}

TEST_CASE("what a schedule says and a run is too short for is told", "[train][regression]") {
  const auto told = [](optimizer::ScheduleConfig schedule) {
    experiment::Experiment experiment = small_experiment();  // 16 steps
    experiment.optimizer.lr_scheduler = std::move(schedule);
    return notices_of_building(experiment);
  };
  using Catch::Contains;
  const auto shaped = [](auto shape) { return optimizer::ScheduleConfig{.shape = shape}; };
  CHECK_THAT(told(shaped(optimizer::MultistepScheduleConfig{.milestones = {4, 30}})),
             Contains("milestones go up to 30, and the run has 16 steps"));
  CHECK_THAT(told(shaped(optimizer::StepScheduleConfig{.step_size = 20})), Contains("changes nothing"));
  CHECK_THAT(told(shaped(optimizer::WsdScheduleConfig{.decay_ratio = 0.01})), Contains("changes nothing"));
  CHECK_THAT(told(shaped(optimizer::CosineScheduleConfig{.min_lr = 0.5})),
             Contains("goes up to 0.4952, above the learning rate"));
  CHECK_THAT(told({.warmup = 16}), Contains("never reaches optimizer.lr"));
  CHECK_THAT(told(shaped(optimizer::PlateauScheduleConfig{.min_lr = 0.5})), Contains("it is never reduced"));
  CHECK(told(shaped(optimizer::PlateauScheduleConfig{})).empty());
  const auto by_epochs = [](double start_factor) {
    return optimizer::ScheduleConfig{
        .warmup = 1, .warmup_start_factor = start_factor, .interval = optimizer::LrInterval::epoch};
  };
  CHECK_THAT(told(by_epochs(0)), Contains("the first epoch changes no weight"));
  CHECK(told(by_epochs(0.1)).empty());
  CHECK(told(shaped(optimizer::CosineScheduleConfig{})).empty());
  CHECK(told({.warmup = 4}).empty());
}

TEST_CASE("what begins behind the last step is told", "[train][regression]") {
  const auto told = [](const auto& change) {
    experiment::Experiment experiment = small_experiment();  // 16 steps
    change(experiment);
    return notices_of_building(experiment);
  };
  using Catch::Contains;
  const auto averaged_from = [&](std::int64_t start) {
    return told([&](auto& experiment) { experiment.optimizer.ema = optimizer::EmaConfig{.start = start}; });
  };
  CHECK_THAT(averaged_from(17), Contains("optimizer.ema.start is 17, and the run has 16 steps: it changes nothing"));
  CHECK_THAT(averaged_from(16), !Contains("optimizer.ema.start"));
  const auto watched_over = [&](std::int64_t window) {
    return told([&](auto& experiment) { experiment.train.loss_spikes = LossSpikesConfig{.window = window}; });
  };
  CHECK_THAT(watched_over(31), Contains("train.loss_spikes.window is 31, and the run has 16 steps"));
  CHECK_THAT(watched_over(30), !Contains("train.loss_spikes"));
  const auto measured_every = [&](std::int64_t every) {
    return told([&](auto& experiment) {
      experiment.tracking.histogram_every = every;
      experiment.checkpoint.in_memory = checkpoint::SnapshotConfig{.every = every};
    });
  };
  CHECK_THAT(measured_every(17), Contains("tracking.histogram_every is 17") && Contains("in_memory.every is 17"));
  CHECK_THAT(measured_every(16), !Contains("_every is") && !Contains("in_memory.every is"));
  const auto rounded_from = [&](std::int64_t start) {
    return told(
        [&](auto& experiment) { experiment.quantization.training = quantization::QatConfig{.start_step = start}; });
  };
  CHECK_THAT(rounded_from(16), Contains("quantization.start_step is 16"));
  CHECK_THAT(rounded_from(15), !Contains("quantization.start_step"));
  const auto compressed_from = [&](std::int64_t start) {
    return told([&](auto& experiment) {
      experiment.distributed.how =
          distributed::DdpConfig{.gradient_compression = distributed::PowerSgdConfig{.start_step = start}};
    });
  };
  CHECK_THAT(compressed_from(16), Contains("distributed.gradient_compression.start_step is 16"));
  CHECK_THAT(compressed_from(15), !Contains("gradient_compression.start_step"));
  const auto profiled_from = [&](std::int64_t start) {  // six steps: two idle, one of warm-up, three recorded
    return told([&](auto& experiment) { experiment.profiler.start_step = start; });
  };
  CHECK_THAT(profiled_from(12), Contains("ends with step 17, and the run has 16 steps: no profile is written"));
  CHECK_THAT(profiled_from(11), !Contains("profile"));
  const auto stopped_after = [&](std::int64_t patience) {  // evaluations at steps 4, 8 and 12, and at the end
    return told([&](auto& experiment) {
      experiment.train.eval_every = 4;
      experiment.train.early_stopping = EarlyStoppingConfig{.patience = patience};
    });
  };
  CHECK_THAT(stopped_after(3), Contains("train.early_stopping.patience is 3, and the run has 3 evaluations before"));
  CHECK_THAT(stopped_after(2), !Contains("train.early_stopping"));
}

TEST_CASE("twenty steps equal ten steps, a restore and ten more, bit for bit", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 20;
  experiment.train.log_every = 4;
  experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
  experiment.optimizer.lr_scheduler.shape = optimizer::OneCycleScheduleConfig{};
  experiment.task = task::ClassificationConfig{.label_smoothing = 0.1, .mixup = 0.2, .cutmix = 1.0};
  experiment.checkpoint.every = 10;
  experiment.checkpoint.keep_last = 5;
  for (const std::int64_t workers : {0, 2}) {
    experiment.dataset.num_workers = workers;
    const TemporaryDirectory whole, half;
    const TrainedRun uninterrupted = train(experiment, whole.path());
    const TrainedRun resumed = train(experiment, half.path(), whole.path() / "checkpoints" / "step_00000010");
    CHECK(largest_difference(uninterrupted.weights, resumed.weights) == 0);
    REQUIRE(uninterrupted.records.size() == 5);
    REQUIRE(resumed.records.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(resumed.records[i].step == uninterrupted.records[i + 2].step);
      CHECK(resumed.records[i].loss == uninterrupted.records[i + 2].loss);
      CHECK(resumed.records[i].lr == uninterrupted.records[i + 2].lr);
      CHECK(resumed.records[i].grad_norm == uninterrupted.records[i + 2].grad_norm);
    }
  }
}

TEST_CASE("a run learns, evaluates and says so", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 60;
  experiment.train.eval_every = 30;
  experiment.optimizer.lr = 1e-2;
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  CHECK(Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run() == 0);
  const auto evaluations = log.all<tracking::Evaluated>();
  REQUIRE(evaluations.size() == 2);
  CHECK(evaluations.back().metrics[1].first == "accuracy");
  CHECK(evaluations.back().metrics[1].second > 0.6);
  REQUIRE(log.all<tracking::RunFinished>().size() == 1);
  CHECK(log.all<tracking::RunFinished>()[0].outcome == tracking::Outcome::finished);
  CHECK(log.all<tracking::CheckpointSaved>().back().step == 60);
}

TEST_CASE("a step is logged with the epoch that it is of", "[train]") {
  experiment::Experiment experiment = small_experiment();  // 8 steps an epoch
  experiment.train.log_every = 1;
  const TemporaryDirectory directory;
  const std::vector<tracking::StepLogged> records = train(experiment, directory.path()).records;
  REQUIRE(records.size() == 16);
  for (const tracking::StepLogged& record : records) CHECK(record.epoch == (record.step <= 8 ? 0 : 1));
}

TEST_CASE("weights and gradients are measured at the steps asked for, before clipping", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.tracking.histogram_every = 4;
  experiment.accumulation.steps = 2;
  experiment.optimizer.clip_norm = 1e-3;
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  REQUIRE(Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run() == 0);
  const auto measured = log.all<tracking::ParametersMeasured>();
  const auto logged = log.all<tracking::StepLogged>();  // each four steps, too
  REQUIRE(measured.size() == 4);
  REQUIRE(logged.size() == 4);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    CHECK(measured[i].step == logged[i].step);
    CHECK(measured[i].tensors.size() == 2 * run->parameters.size());
    double squares = 0;
    for (const tracking::TensorMeasured& tensor : measured[i].tensors)
      if (tensor.name.starts_with("gradient/")) squares += tensor.norm * tensor.norm;
    CHECK(std::sqrt(squares) == Approx(logged[i].grad_norm.value()).epsilon(1e-5));
  }
}

TEST_CASE("a signal ends the run after a checkpoint", "[train]") {
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(small_experiment());
  class Interrupter final : public tracking::Sink {
   public:
    void on(const tracking::Event& event) override {
      if (const auto* progress = std::get_if<tracking::Progress>(&event); progress != nullptr && progress->step == 5)
        std::raise(SIGTERM);
    }
  } interrupter;
  const StopSignal stop;
  CHECK(Trainer(*run, interrupter, stop, {.run_directory = directory.path(), .config = {}}).run() == SIGTERM);
  CHECK(run->step == 5);
  CHECK(step_directory_of(directory.path()).filename() == "step_00000005");
}

TEST_CASE("a loss that is not finite stops the run and names the module", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.optimizer.rule = optimizer::SgdConfig{};
  experiment.optimizer.lr = 1e30;
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  Trainer trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}});
  CHECK_THROWS_WITH(trainer.run(), Catch::Contains("not finite at step") && Catch::Contains("first in"));
  CHECK(log.all<tracking::RunFinished>()[0].outcome == tracking::Outcome::failed);
}

TEST_CASE("rolling back is bounded and goes on with other data", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.optimizer.rule = optimizer::SgdConfig{};
  experiment.optimizer.lr = 1e-3;
  experiment.optimizer.lr_scheduler.shape = optimizer::MultistepScheduleConfig{.milestones = {6}, .gamma = 1e35};
  experiment.train.on_non_finite = NonFinite::rollback;
  experiment.train.max_rollbacks = 2;
  experiment.checkpoint.every = 2;
  experiment.train.eval_every = 2;
  experiment.train.log_every = 2;
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  Trainer trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}});
  CHECK_THROWS_WITH(trainer.run(), Catch::Contains("not finite"));
  CHECK(run->num_rollbacks == 2);
  // The step that it goes back to was evaluated and logged when it was made.
  std::set<std::int64_t> steps;
  for (const tracking::Evaluated& one : log.all<tracking::Evaluated>()) CHECK(steps.insert(one.step).second);
  CHECK(steps.size() >= 3);
  for (const tracking::StepLogged& one : log.all<tracking::StepLogged>()) CHECK(one.loss.has_value());
}

TEST_CASE("a step that isn't finite is found although its flag is read later", "[train]") {
  NonFiniteSteps steps;
  const auto add = [&](float flag) {
    StepResult result;
    result.non_finite = at::full({1}, flag);
    steps.add(result);
  };
  add(0);
  add(1);
  add(0);
  CHECK(steps.take() == 3);
  add(0);
  CHECK(steps.take() == 0);
}

TEST_CASE("weights that aren't finite are in no checkpoint", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.optimizer.rule = optimizer::SgdConfig{};
  experiment.optimizer.lr = 1e39;  // beyond a float: the first step's loss is finite, its weights aren't
  experiment.optimizer.lr_scheduler.shape = optimizer::ConstantScheduleConfig{};
  experiment.checkpoint.every = 1;
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  Trainer trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}});
  CHECK_THROWS_WITH(trainer.run(), Catch::Contains("isn't finite after step 1, which is not saved"));
  CHECK(checkpoint::find_complete(directory.path()).empty());
}

TEST_CASE("a resumed run is saved although it makes no step, and never goes to what it left behind", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 12;
  experiment.checkpoint.every = 4;
  experiment.checkpoint.keep_last = 5;
  const TemporaryDirectory first, second;
  const auto train_from = [&](const std::filesystem::path& point, const TemporaryDirectory& directory) {
    const std::unique_ptr<Run> run = build_run(experiment);
    EventLog log;
    if (!point.empty()) restore(*run, point, {}, log);
    const StopSignal stop;
    return Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
  };
  train_from({}, first);
  const std::filesystem::path checkpoints = first.path() / "checkpoints";
  train_from(checkpoints / "step_00000012", second);
  CHECK(step_directory_of(second.path()).filename() == "step_00000012");

  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  restore(*run, checkpoints / "step_00000004", {}, log);
  const StopSignal stop;
  StopSignal::Deferral deferral(run->step);
  Checkpointer checkpointer(*run, log, deferral, first.path(), {});
  CHECK(std::filesystem::read_symlink(checkpoints / "latest") == "step_00000004");
  run->step = run->evaluated_step = 9;
  run->metrics = {{"of a withdrawn step", 1.0}};
  checkpointer.roll_back();
  CHECK(run->step == 4);
  CHECK(run->evaluated_step <= 4);
  CHECK_FALSE(find_metric(run->metrics, "of a withdrawn step"));
  REQUIRE(log.all<tracking::RolledBack>().size() == 1);
  CHECK(log.all<tracking::RolledBack>()[0].step == 4);
}

TEST_CASE("a run whose evaluations no longer improve ends early, and counts on after a resume", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 60;
  experiment.train.eval_every = 5;
  experiment.train.early_stopping = EarlyStoppingConfig{.patience = 3, .min_delta = 1e9};  // nothing is enough
  const TemporaryDirectory directory;
  std::optional<std::filesystem::path> saved;
  for (const std::int64_t steps : {10, 60}) {
    experiment.train.steps = steps;
    const std::unique_ptr<Run> run = build_run(experiment);
    EventLog log;
    if (saved) restore(*run, *saved, {}, log);
    const StopSignal stop;
    CHECK(Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run() == 0);
    CHECK(run->step == (steps == 10 ? 10 : 20));  // the first evaluation, and three without an improvement
    CHECK(log.all<tracking::RunFinished>()[0].outcome == tracking::Outcome::finished);
    saved = step_directory_of(directory.path());
  }
}

TEST_CASE("eval_steps limits an evaluation, and eval_every 0 leaves out the last one", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 4;
  for (const std::optional<std::int64_t> eval_steps : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
    experiment.train.eval_steps = eval_steps;
    const TemporaryDirectory directory;
    const std::unique_ptr<Run> run = build_run(experiment);
    EventLog log;
    const StopSignal stop;
    Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
    const auto evaluations = log.all<tracking::Evaluated>();
    REQUIRE(evaluations.size() == 1);
    const auto details = nlohmann::json::parse(evaluations[0].details);
    const std::int64_t all = run->data.eval->num_samples();
    REQUIRE(all > run->experiment.dataset.samples_per_batch());
    CHECK(details["num_samples"] == (eval_steps ? run->experiment.dataset.samples_per_batch() : all));
  }
  experiment.train.eval_every = 0;
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
  CHECK(log.all<tracking::Evaluated>().empty());
}

}  // namespace trainctl::train
