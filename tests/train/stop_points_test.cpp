// A run that a signal stops at any of its events, and that is started again, equals one that nothing stopped.
#include <catch2/catch.hpp>
#include <csignal>
#include <map>

#include "small_run.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::train::stop_points_test {

using namespace trainctl;
using namespace trainctl::train;
using namespace trainctl::testing;

namespace {

/// Raises a signal at one event of the run, counted from 0.
class StopAt final : public tracking::Sink {
 public:
  explicit StopAt(std::optional<std::int64_t> event) : event_(event) {}
  void on(const tracking::Event& event) override {
    log.on(event);
    const bool is_of_this_thread = !std::holds_alternative<tracking::CheckpointSaved>(event);
    if (is_of_this_thread && num_events++ == event_) std::raise(SIGTERM);
  }

  EventLog log{};
  std::int64_t num_events = 0;

 private:
  std::optional<std::int64_t> event_;
};

/// What a user sees of a run.
struct Outcome {
  std::map<std::int64_t, task::Metrics> evaluations;  // by step
  std::map<std::int64_t, double> rates;               // by step
  std::vector<at::Tensor> weights;
  std::string best;  // checkpoint
  std::int64_t best_step = 0;
  std::int64_t num_events = 0;  // of the first start
  int num_starts = 0;
};

/// Runs until nothing stops it any more.
Outcome run_to_end(const experiment::Experiment& experiment, std::optional<std::int64_t> stop_at) {
  const TemporaryDirectory directory;
  Outcome outcome;
  while (true) {
    const std::unique_ptr<Run> run = build_run(experiment);
    StopAt sink(stop_at);
    const StopSignal stop;
    const std::filesystem::path checkpoints = directory.path() / "checkpoints";
    if (std::filesystem::exists(checkpoints / "latest")) restore(*run, checkpoints / "latest", {}, sink.log);
    Trainer trainer(*run, sink, stop, {.run_directory = directory.path(), .config = {}});
    const int signal = trainer.run();
    for (const tracking::Evaluated& one : sink.log.all<tracking::Evaluated>())
      outcome.evaluations[one.step] = one.metrics;
    for (const tracking::StepLogged& one : sink.log.all<tracking::StepLogged>()) outcome.rates[one.step] = one.lr;
    if (outcome.num_starts++ == 0) outcome.num_events = sink.num_events;
    stop_at = std::nullopt;
    if (signal != 0) continue;
    outcome.weights = weights_of(*run);
    outcome.best = std::filesystem::read_symlink(checkpoints / "best").string();
    outcome.best_step = sink.log.all<tracking::RunFinished>().at(0).best_step;
    return outcome;
  }
}

}  // namespace

TEST_CASE("a run that is stopped at any event and started again is the run that nothing stopped", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 6;
  experiment.train.log_every = 1;
  experiment.train.eval_every = 2;
  experiment.accumulation.steps = 2;
  experiment.dataset.eval_batch_size = 32;
  experiment.checkpoint.every = 3;
  experiment.checkpoint.keep_last = 10;
  experiment.checkpoint.best = checkpoint::BestConfig{.metric = "loss", .mode = checkpoint::MetricOrder::min};
  experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
  experiment.optimizer.lr_scheduler.shape = optimizer::PlateauScheduleConfig{.patience = 0, .threshold = 0.9};
  experiment.train.early_stopping = EarlyStoppingConfig{.patience = 3, .min_delta = 1e9};
  const Outcome whole = run_to_end(experiment, std::nullopt);
  REQUIRE(whole.evaluations.size() == 3);
  for (std::int64_t event = 0; event < whole.num_events; ++event) {
    INFO("stopped at event " << event << " of " << whole.num_events);
    const Outcome stopped = run_to_end(experiment, event);
    CHECK(stopped.num_starts <= 2);
    CHECK(stopped.evaluations == whole.evaluations);
    CHECK(stopped.rates == whole.rates);
    CHECK(largest_difference(stopped.weights, whole.weights) == 0);
    CHECK(stopped.best == whole.best);
    CHECK(stopped.best_step == whole.best_step);
  }
}

TEST_CASE("an average that learns without a schedule is the same after a stop in an evaluation", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 4;
  experiment.train.log_every = 1;
  experiment.train.eval_every = 2;
  experiment.checkpoint.best = checkpoint::BestConfig{.metric = "loss", .mode = checkpoint::MetricOrder::min};
  experiment.optimizer.rule = optimizer::ScheduleFreeConfig{};
  const Outcome whole = run_to_end(experiment, std::nullopt);
  for (std::int64_t event = 0; event < whole.num_events; ++event) {
    INFO("stopped at event " << event << " of " << whole.num_events);
    const Outcome stopped = run_to_end(experiment, event);
    CHECK(stopped.evaluations == whole.evaluations);
    CHECK(largest_difference(stopped.weights, whole.weights) == 0);
    CHECK(stopped.best == whole.best);
  }
}

}  // namespace trainctl::train::stop_points_test
