#include "train/run/loss_spikes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "ranks.h"
#include "train/loop/trainer.h"

namespace trainctl::train {

using namespace testing;

namespace {

experiment::Experiment watched_experiment(std::int64_t seed, SpikeAction action) {
  experiment::Experiment experiment = small_experiment();
  experiment.seed = seed;
  experiment.device.num_threads = std::int64_t{1};
  experiment.dataset.batch_size = 16;
  experiment.model.network = model::CnnConfig{.channels = {4, 8}, .batch_norm = false, .hidden = 16};
  experiment.optimizer.lr = 3e-3;
  experiment.train.steps = 150;
  experiment.train.log_every = 50;
  experiment.train.loss_spikes = LossSpikesConfig{.window = 64, .action = action};
  experiment.checkpoint.every = 50;
  return experiment;
}

/// What a run left whose batches at `steps` (the first is 1) are far too bright, with wrong labels.
struct Outcome {
  std::vector<nlohmann::json> spikes;  // lines of loss_spikes.jsonl
  std::set<std::int64_t> planted;      // samples of the planted batches
  std::int64_t num_rollbacks = 0;
  std::int64_t last_step = 0;
  dataset::Position next_sample;
};

Outcome run_with(const experiment::Experiment& experiment, const std::set<std::int64_t>& steps) {
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  Outcome outcome;
  std::int64_t number = 0;
  run->data.train = std::make_unique<ChangedLoader>(std::move(run->data.train), [&](dataset::Batch& batch) {
    if (!steps.contains(++number)) return;
    batch.inputs = batch.inputs.mul(20);
    batch.targets = batch.targets.add(1).remainder(4);
    outcome.planted.insert(batch.indices.begin(), batch.indices.end());
  });
  EventLog log;
  const StopSignal stop;
  Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
  std::ifstream file(directory.path() / "loss_spikes.jsonl");
  for (std::string line; std::getline(file, line);) outcome.spikes.push_back(nlohmann::json::parse(line));
  outcome.num_rollbacks = run->num_rollbacks;
  outcome.last_step = run->step;
  outcome.next_sample = run->next_sample;
  return outcome;
}

}  // namespace

TEST_CASE("runs of twenty seeds without a bad batch have no loss spike", "[train]") {
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    CHECK(run_with(watched_experiment(seed, SpikeAction::rollback), {}).spikes.empty());
  }
}

TEST_CASE("planted batches are found at their steps, and their samples are named", "[train]") {
  for (std::int64_t seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    const Outcome outcome = run_with(watched_experiment(seed, SpikeAction::warn), {70, 110});
    REQUIRE(outcome.spikes.size() == 2);
    std::set<std::int64_t> named;
    for (const nlohmann::json& spike : outcome.spikes)
      for (const std::int64_t sample : spike.at("samples")) named.insert(sample);
    CHECK(outcome.spikes[0].at("step") == 70);
    CHECK(outcome.spikes[1].at("step") == 110);
    CHECK(named == outcome.planted);
    CHECK(outcome.num_rollbacks == 0);
  }
}

TEST_CASE("after a spike a run goes back to its checkpoint, and on with the data after the spike", "[train]") {
  const Outcome outcome = run_with(watched_experiment(3, SpikeAction::rollback), {70});
  REQUIRE(outcome.spikes.size() == 1);
  CHECK(outcome.spikes[0].at("step") == 70);
  CHECK(outcome.spikes[0].at("rolls_back") == true);
  CHECK(outcome.num_rollbacks == 1);
  CHECK(outcome.last_step == 150);
  // 150 steps, and those from 51 to 70 that were taken back: 170 batches of 16, of 256 samples an epoch.
  CHECK(outcome.next_sample == dataset::Position{.epoch = 10, .sample = 160});
}

TEST_CASE("a spike before the first checkpoint is told, and the run goes on", "[train]") {
  experiment::Experiment experiment = watched_experiment(3, SpikeAction::rollback);
  experiment.checkpoint.every = 100;
  const Outcome outcome = run_with(experiment, {70});
  REQUIRE(outcome.spikes.size() == 1);
  CHECK(outcome.spikes[0].at("rolls_back") == false);
  CHECK(outcome.num_rollbacks == 0);
}

TEST_CASE("a fall, a trend and a heavy tail are no spikes, and a spike needs a large gradient", "[train]") {
  LossSpikes spikes({});
  std::mt19937 random(1);
  std::lognormal_distribution<double> noise(0, 0.3);
  for (int step = 0; step < 2000; ++step)
    CHECK_FALSE(spikes.observe(4 * std::exp(-step / 500.0) * noise(random), noise(random)));
  CHECK_FALSE(spikes.observe(50, 1));
  CHECK_FALSE(spikes.observe(0.01, 50));
  CHECK_FALSE(spikes.observe(NAN, 1));
  CHECK_FALSE(spikes.observe(1, INFINITY));
  const std::optional<LossSpike> spike = spikes.observe(50, 50);
  REQUIRE(spike);
  CHECK(spike->loss_z > 8);
  CHECK(spike->grad_norm_z > 4);
}

TEST_CASE("a detector goes on from its state", "[train]") {
  LossSpikes whole({.window = 16}), first({.window = 16}), second({.window = 16});
  const auto figures = [](int step) { return std::pair(1 + 0.1 * std::sin(step), 2 + 0.3 * std::cos(step)); };
  for (int step = 0; step < 30; ++step) {
    const auto [loss, norm] = figures(step);
    whole.observe(loss, norm);
    if (step < 12) first.observe(loss, norm);
  }
  MapState::of(first).restore_into(second);
  for (int step = 12; step < 30; ++step) second.observe(figures(step).first, figures(step).second);
  const std::optional<LossSpike> a = whole.observe(9, 90), b = second.observe(9, 90);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->loss_z == b->loss_z);
  CHECK(a->grad_norm_z == b->grad_norm_z);
}

}  // namespace trainctl::train
