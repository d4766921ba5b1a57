// What a run does that goes on with other values than it began with.
#include <catch2/catch.hpp>
#include <set>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "dataset/loader/bad_samples.h"
#include "small_run.h"
#include "support/map_state.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::train::resume_changes_test {

using namespace trainctl;
using namespace trainctl::train;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

/// Trains a run, from its newest checkpoint if it has one. Returns what it said.
EventLog& train_on(const experiment::Experiment& experiment, const TemporaryDirectory& directory, EventLog& log,
                   const std::map<std::string, std::string>& config = {}) {
  const std::unique_ptr<Run> run = build_run(experiment);
  const StopSignal stop;
  const std::filesystem::path latest = directory.path() / "checkpoints/latest";
  if (std::filesystem::exists(latest)) restore(*run, latest, config, log);
  Trainer(*run, log, stop, {.run_directory = directory.path(), .config = config}).run();
  return log;
}

/// Returns the learning rate of each step that was logged.
std::vector<double> rates_of(const EventLog& log) {
  std::vector<double> rates;
  for (const tracking::StepLogged& one : log.all<tracking::StepLogged>()) rates.push_back(one.lr);
  return rates;
}

std::string notices_of(const EventLog& log) {
  std::string text;
  for (const tracking::Notice& notice : log.all<tracking::Notice>()) text += notice.text + "\n";
  return text;
}

/// Three epochs of 256 samples.
experiment::Experiment epochs_experiment(std::int64_t epochs, std::int64_t batch_size, std::int64_t accumulation = 1) {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = std::nullopt;
  experiment.train.epochs = epochs;
  experiment.train.log_every = 1;
  experiment.dataset.batch_size = batch_size;
  experiment.accumulation.steps = accumulation;
  experiment.optimizer.lr_scheduler.shape = optimizer::CosineScheduleConfig{};
  return experiment;
}

}  // namespace

TEST_CASE("another batch at a resume leaves the epochs, and the schedule goes by the data", "[train]") {
  struct Batch {
    std::int64_t size;
    std::int64_t accumulation;
    std::int64_t samples() const { return size * accumulation; }
  };
  const std::vector<Batch> batches{{32, 1}, {32, 2}, {48, 1}};
  for (const Batch& before : batches)
    for (const Batch& after : batches) {
      INFO(before.samples() << " -> " << after.samples());
      const TemporaryDirectory directory;
      EventLog first, second, whole;
      train_on(epochs_experiment(1, before.size, before.accumulation), directory, first);
      train_on(epochs_experiment(3, after.size, after.accumulation), directory, second);
      const TemporaryDirectory other;
      train_on(epochs_experiment(3, after.size, after.accumulation), other, whole);
      const std::int64_t per_epoch = (256 + after.samples() - 1) / after.samples();
      const std::vector<double> rates = rates_of(second);
      CHECK(std::ssize(rates) == 2 * per_epoch);
      const std::vector<double> all = rates_of(whole);
      CHECK(rates == std::vector<double>(all.begin() + per_epoch, all.end()));
      CHECK(second.all<tracking::StepLogged>().back().epoch == 2);
      CHECK(second.all<tracking::RunFinished>().at(0).outcome == tracking::Outcome::finished);
    }
}

TEST_CASE("other data, or steps in place of epochs, leave the rest of the epochs", "[train][regression]") {
  struct Change {
    std::int64_t samples_before, samples, steps;  // in batches of 32; 0 steps: one epoch
    bool drops_last = false;
    std::int64_t left;
  };
  const std::vector<Change> changes{
      {.samples_before = 256, .samples = 512, .steps = 0, .left = 32},
      {.samples_before = 256, .samples = 96, .steps = 0, .left = 6},
      {.samples_before = 256, .samples = 256, .steps = 3, .left = 21},
      {.samples_before = 256, .samples = 160, .steps = 3, .left = 12},
      {.samples_before = 250, .samples = 250, .steps = 0, .drops_last = true, .left = 14}};
  for (const Change& change : changes) {
    INFO(change.samples_before << " -> " << change.samples << ", " << change.steps << " steps");
    const TemporaryDirectory directory;
    const auto with_samples = [](experiment::Experiment experiment, std::int64_t samples) {
      auto source = *experiment.dataset.source.get_if<dataset::SyntheticImagesConfig>();
      source.num_samples = samples;
      experiment.dataset.source = source;
      return experiment;
    };
    experiment::Experiment before = with_samples(epochs_experiment(1, 32), change.samples_before);
    if (change.steps > 0) {
      before.train.epochs = std::nullopt;
      before.train.steps = change.steps;
    }
    experiment::Experiment after = with_samples(epochs_experiment(3, 32), change.samples);
    after.dataset.drop_last = change.drops_last;
    EventLog first, second;
    train_on(before, directory, first);
    train_on(after, directory, second);
    CHECK(std::ssize(rates_of(second)) == change.left);
  }
}

TEST_CASE("a schedule by epochs goes by the data in a run that counts steps", "[train][regression]") {
  const auto experiment = [](std::int64_t batch_size, std::int64_t steps) {
    experiment::Experiment counted = epochs_experiment(1, batch_size);
    counted.train.epochs = std::nullopt;
    counted.train.steps = steps;
    counted.optimizer.lr = 0.1;
    counted.optimizer.lr_scheduler.shape = optimizer::StepScheduleConfig{.step_size = 1, .gamma = 0.5};
    counted.optimizer.lr_scheduler.interval = optimizer::LrInterval::epoch;
    return counted;
  };
  const TemporaryDirectory directory;
  EventLog first, second, third;
  train_on(experiment(32, 4), directory, first);  // half an epoch
  CHECK(rates_of(train_on(experiment(64, 10), directory, second)) ==
        std::vector<double>{0.1, 0.1, 0.05, 0.05, 0.05, 0.05});
  CHECK(second.all<tracking::StepLogged>().front().epoch == 0);
  CHECK(second.all<tracking::StepLogged>().back().epoch == 1);
  CHECK(rates_of(train_on(experiment(64, 11), directory, third)) == std::vector<double>{0.025});
}

TEST_CASE("another metric at a resume is watched from its first evaluation", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 4;
  experiment.train.eval_every = 1;
  experiment.train.log_every = 1;
  experiment.train.early_stopping = EarlyStoppingConfig{.patience = 100};
  experiment.optimizer.lr_scheduler.shape = optimizer::PlateauScheduleConfig{.patience = 100};
  const TemporaryDirectory directory;
  EventLog first, second;
  train_on(experiment, directory, first);
  // No accuracy is above the checkpoint's loss: the first evaluation would lower the rate, and the second end the run.
  experiment.train.steps = 8;
  experiment.train.early_stopping =
      EarlyStoppingConfig{.patience = 2, .metric = "accuracy", .mode = checkpoint::MetricOrder::max};
  experiment.optimizer.lr_scheduler.shape =
      optimizer::PlateauScheduleConfig{.metric = "accuracy", .better = optimizer::Better::higher, .patience = 0};
  train_on(experiment, directory, second);
  const std::vector<double> rates = rates_of(second);
  REQUIRE(rates.size() >= 3);
  CHECK(rates[0] == rates[1]);
}

TEST_CASE("a resume between two evaluations keeps the metrics of the last one", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 4;
  experiment.train.eval_every = 2;
  experiment.checkpoint.every = 3;
  const TemporaryDirectory directory;
  EventLog first, second;
  train_on(experiment, directory, first);
  experiment.train.eval_every = 0;
  const std::unique_ptr<Run> run = build_run(experiment);
  restore(*run, directory.path() / "checkpoints/step_00000003", {}, second);
  const StopSignal stop;
  Trainer(*run, second, stop, {.run_directory = directory.path()}).run();
  const tracking::RunFinished finished = second.all<tracking::RunFinished>().at(0);
  CHECK(finished.steps == 4);
  CHECK(finished.final_metrics == first.all<tracking::Evaluated>().at(0).metrics);
}

TEST_CASE("evaluations of another set are not compared with those before the resume", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 4;
  experiment.train.eval_every = 2;
  experiment.train.log_every = 1;
  experiment.train.early_stopping = EarlyStoppingConfig{.patience = 2, .min_delta = 100};  // none after the first
  experiment.checkpoint.best = checkpoint::BestConfig{};
  experiment.optimizer.lr_scheduler.shape = optimizer::PlateauScheduleConfig{.patience = 1, .threshold = 0.999};
  const TemporaryDirectory directory;
  EventLog first, second;
  train_on(experiment, directory, first);
  experiment.train.steps = 8;
  SECTION("another set") {
    auto source = *experiment.dataset.source.get_if<dataset::SyntheticImagesConfig>();
    source.num_eval_samples = 32;
    experiment.dataset.source = source;
  }
  SECTION("another part of the set") {
    experiment.train.eval_steps = 1;
  }
  train_on(experiment, directory, second);
  CHECK_THAT(notices_of(second), Contains("the best evaluation, since the evaluation set is another"));
  // The set is evaluated where the run goes on. Compared with the other set, this one would end the run.
  const std::vector<tracking::Evaluated> evaluated = second.all<tracking::Evaluated>();
  REQUIRE(evaluated.size() == 3);
  CHECK(evaluated[0].step == 4);
  CHECK(evaluated[0].best->step == 4);
  CHECK(rates_of(second) == std::vector<double>(4, experiment.optimizer.lr));
  const auto link = std::filesystem::read_symlink(directory.path() / "checkpoints/best");
  CHECK(link == "step_0000000" + std::to_string(second.all<tracking::RunFinished>().at(0).best_step));
}

TEST_CASE("the best evaluation that is told has the checkpoint called best", "[train][regression]") {
  const bool is_moved = GENERATE(false, true);
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  experiment.train.eval_every = 2;
  const TemporaryDirectory directory, other;
  EventLog first, second;
  train_on(experiment, directory, first);
  experiment.train.steps = 6;
  experiment.optimizer.lr = 1;  // no later evaluation is as good
  experiment.checkpoint.best = checkpoint::BestConfig{.metric = "loss", .mode = checkpoint::MetricOrder::min};
  const std::unique_ptr<Run> run = build_run(experiment);
  restore(*run, directory.path() / "checkpoints/latest", {}, second);
  const std::filesystem::path goes_on_in = is_moved ? other.path() : directory.path();
  const StopSignal stop;
  Trainer(*run, second, stop, {.run_directory = goes_on_in}).run();
  const std::int64_t best_step = second.all<tracking::RunFinished>().at(0).best_step;
  CHECK((best_step == 2) == !is_moved);
  CHECK(std::filesystem::read_symlink(goes_on_in / "checkpoints/best") == "step_0000000" + std::to_string(best_step));
  if (is_moved)
    CHECK_THAT(notices_of(second), Contains("the best evaluation so far, of step 2, has no checkpoint in"));
  else
    CHECK_THAT(notices_of(second), !Contains("has no checkpoint"));
}

TEST_CASE("a sampled evaluation is another one with another number of samples", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  experiment.train.eval_steps = 1;
  experiment.dataset.eval_batch_size = 32;
  const TemporaryDirectory directory;
  EventLog first, second;
  train_on(experiment, directory, first);
  experiment.train.steps = 4;
  experiment.dataset.eval_batch_size = 16;
  const bool has_as_many = GENERATE(false, true);
  if (has_as_many) experiment.train.eval_steps = 2;
  train_on(experiment, directory, second);
  const auto told = Contains("the best evaluation, since the evaluation set is another");
  if (has_as_many)
    CHECK_THAT(notices_of(second), !told);
  else
    CHECK_THAT(notices_of(second), told);
}

TEST_CASE("bad samples before a resume count on", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  const TemporaryDirectory directory;
  EventLog log;
  train_on(experiment, directory, log);
  directory.write("bad_samples.jsonl",
                  "{\"problem\":\"a.jpg: damaged\",\"rank\":0,\"sample\":3,\"step\":1}\n"
                  "{\"problem\":\"b.jpg: damaged\",\"rank\":1,\"sample\":4,\"step\":1}\n{\"prob");
  const std::unique_ptr<Run> run = build_run(experiment);
  restore(*run, directory.path() / "checkpoints/latest", {}, log);
  const StopSignal stop;
  const Trainer trainer(*run, log, stop, {.run_directory = directory.path()});
  CHECK(run->data.bad_samples->count() == 1);
}

TEST_CASE("a second resume keeps what the first one made of the schedule", "[train]") {
  const TemporaryDirectory directory;
  EventLog first, second, third;
  train_on(epochs_experiment(1, 32), directory, first);
  train_on(epochs_experiment(2, 64), directory, second);
  train_on(epochs_experiment(3, 64), directory, third);
  CHECK(rates_of(second).size() == 4);
  CHECK(rates_of(third).size() == 4);
  CHECK(third.all<tracking::StepLogged>().back().step == 8 + 4 + 4);
}

TEST_CASE("a run that ends by a smaller patience at a resume says so", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 6;
  experiment.train.eval_every = 2;
  experiment.train.early_stopping = EarlyStoppingConfig{.patience = 100, .min_delta = 100};
  const TemporaryDirectory directory;
  EventLog first, second;
  train_on(experiment, directory, first);
  experiment.train.steps = 12;
  experiment.train.early_stopping->patience = 2;
  train_on(experiment, directory, second);
  CHECK(second.all<tracking::RunFinished>().at(0).steps == 6);
  CHECK_THAT(notices_of(second), Contains("stopping early at step 6: no better loss in 2 evaluations"));
}

TEST_CASE("a new learning rate keeps the reductions of a plateau", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.log_every = 1;
  experiment.train.eval_every = 2;
  experiment.optimizer.rule = optimizer::SgdConfig{.momentum = 0};
  experiment.optimizer.lr = 0.1;
  // The first evaluation is the best, and each later one reduces.
  experiment.optimizer.lr_scheduler.shape =
      optimizer::PlateauScheduleConfig{.factor = 0.5, .patience = 0, .threshold = 0.999};
  experiment.train.steps = 4;
  const TemporaryDirectory directory;
  EventLog first, second;
  CHECK(rates_of(train_on(experiment, directory, first)) == std::vector<double>{0.1, 0.1, 0.1, 0.1});
  experiment.train.steps = 6;
  experiment.optimizer.lr = 0.001;
  CHECK(rates_of(train_on(experiment, directory, second)) == std::vector<double>{0.0005, 0.0005});
}

TEST_CASE("what is new since the checkpoint begins with the resume, and says so", "[train]") {
  experiment::Experiment before = small_experiment();
  before.train.steps = 4;
  before.train.eval_every = 2;
  before.model.freeze = {"fc*"};
  const TemporaryDirectory directory;
  EventLog first, second;
  train_on(before, directory, first);
  experiment::Experiment after = before;
  after.train.steps = 8;
  after.model.freeze = {};
  after.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
  after.train.early_stopping = EarlyStoppingConfig{.patience = 100};
  after.optimizer.lr_scheduler.shape = optimizer::PlateauScheduleConfig{};
  train_on(after, directory, second);
  CHECK(second.all<tracking::RunFinished>().at(0).steps == 8);
  const std::string told = notices_of(second);
  CHECK_THAT(told, Contains("new since the checkpoint, and begun here: ") && Contains("ema") && Contains("plateau"));
  CHECK_THAT(told, Contains("early_stopping") && Contains("optimizer of head.fc"));
}

TEST_CASE("a run that may roll back saves at once what is new since its checkpoint", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  const TemporaryDirectory directory;
  EventLog log;
  train_on(experiment, directory, log);
  experiment.train.steps = 4;
  experiment.train.on_non_finite = NonFinite::rollback;
  experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
  train_on(experiment, directory, log);
  const checkpoint::Checkpoint first(directory.path() / "checkpoints/step_00000002");
  CHECK(first.tensors().contains("ema.average.head.fc.weight"));
}

TEST_CASE("a file outside of the run that has changed is told at a resume", "[train]") {
  const TemporaryDirectory directory;
  const std::map<std::string, std::string> config{{"dataset.chat_template", directory.write("chat.jinja", "{{ a }}")}};
  EventLog first, same, changed;
  train_on(epochs_experiment(1, 32), directory, first, with_contents(config));
  train_on(epochs_experiment(2, 32), directory, same, with_contents(config));
  CHECK_THAT(notices_of(same), !Contains("chat_template"));
  directory.write("chat.jinja", "{{ b }}");
  train_on(epochs_experiment(3, 32), directory, changed, with_contents(config));
  CHECK_THAT(notices_of(changed), Contains("dataset.chat_template names files that are no longer those of training"));
}

TEST_CASE("another teacher in the same place is told at a resume", "[train][regression]") {
  const TemporaryDirectory directory;
  const auto with_teacher = [](const std::string& checksum) {
    return with_contents({}, {{"distillation.teacher.init_from", checksum}});
  };
  EventLog first, same, changed;
  train_on(epochs_experiment(1, 32), directory, first, with_teacher("1"));
  train_on(epochs_experiment(2, 32), directory, same, with_teacher("1"));
  CHECK_THAT(notices_of(same), !Contains("teacher"));
  train_on(epochs_experiment(3, 32), directory, changed, with_teacher("2"));
  CHECK_THAT(notices_of(changed), Contains("distillation.teacher.init_from names files that are no longer those of"));
}

TEST_CASE("each rule goes on with layers that were frozen", "[train][regression]") {
  for (const optimizer::UpdateRuleConfig& rule : std::initializer_list<optimizer::UpdateRuleConfig>{
           optimizer::LambConfig{}, optimizer::SoapConfig{}, optimizer::AdafactorConfig{}}) {
    CAPTURE(rule.kind());
    experiment::Experiment experiment = small_experiment();
    experiment.optimizer.rule = rule;
    experiment.train.steps = 2;
    experiment.model.freeze = {"fc*"};
    const TemporaryDirectory directory;
    EventLog first, second;
    train_on(experiment, directory, first);
    experiment.train.steps = 4;
    experiment.model.freeze = {};
    train_on(experiment, directory, second);
    CHECK(second.all<tracking::RunFinished>().at(0).steps == 4);
    CHECK_THAT(notices_of(second), Contains("begun here: optimizer of head.fc"));
  }
}

TEST_CASE("averages of layers that were frozen begin with the restored weights", "[train][regression]") {
  for (const bool schedule_free : {false, true}) {
    CAPTURE(schedule_free);
    experiment::Experiment experiment = small_experiment();
    if (schedule_free)
      experiment.optimizer.rule = optimizer::ScheduleFreeConfig{};
    else
      experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
    experiment.train.steps = 2;
    experiment.model.freeze = {"fc*"};
    const TemporaryDirectory directory;
    EventLog log;
    train_on(experiment, directory, log);
    experiment.seed = 8;  // other weights before those of the checkpoint are read
    experiment.train.steps = 4;
    experiment.model.freeze = {};
    const std::unique_ptr<Run> run = build_run(experiment);
    const std::filesystem::path latest = directory.path() / "checkpoints/latest";
    restore(*run, latest, {}, log);
    const at::Tensor saved = checkpoint::Checkpoint(latest).read_whole("model.").at("head.fc.weight");
    const MapState state = MapState::of(*run);
    CHECK(state.tensors.at("model.head.fc.weight").equal(saved));
    CHECK(state.tensors.at(schedule_free ? "optimizer.z.head.fc.weight" : "ema.average.head.fc.weight").equal(saved));
  }
}

TEST_CASE("what a run can't go on with is refused by its key", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  const TemporaryDirectory directory;
  EventLog log;
  train_on(experiment, directory, log, {{"optimizer.beta1", "0.9"}, {"optimizer.kind", "adamw"}});
  experiment.train.steps = 4;
  experiment.optimizer.rule = optimizer::SgdConfig{.momentum = 0.9};
  CHECK_THROWS_WITH(train_on(experiment, directory, log, {{"optimizer.kind", "sgd"}}),
                    Contains("can't go on with optimizer.kind: adamw -> sgd: ") && !Contains("beta1"));
}

TEST_CASE("averages in other bases are refused at a resume of soap", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  experiment.optimizer.rule = optimizer::SoapConfig{};
  const TemporaryDirectory directory;
  EventLog log;
  train_on(experiment, directory, log, {{"optimizer.max_precond_dim", "10000"}});
  experiment.train.steps = 4;
  experiment.optimizer.rule = optimizer::SoapConfig{.max_precond_dim = 8};
  CHECK_THROWS_WITH(train_on(experiment, directory, log, {{"optimizer.max_precond_dim", "8"}}),
                    Contains("can't go on with optimizer.max_precond_dim: 10000 -> 8"));
}

TEST_CASE("a network without a place for weights of the checkpoint is refused by its key", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.model.network = model::MlpConfig{.hidden = {8, 8}};
  experiment.train.steps = 2;
  experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
  const TemporaryDirectory directory;
  EventLog log;
  train_on(experiment, directory, log, {{"model.hidden", "[8, 8]"}});
  experiment.train.steps = 4;
  experiment.optimizer.ema = std::nullopt;
  experiment.model.network = model::MlpConfig{.hidden = {8}};
  CHECK_THROWS_WITH(train_on(experiment, directory, log, {{"model.hidden", "[8]"}}),
                    Contains("can't go on with model.hidden: [8, 8] -> [8]") && Contains("hidden2.linear.weight"));
  experiment.model.network = model::MlpConfig{.hidden = {8, 8}};
  train_on(experiment, directory, log, {{"model.hidden", "[8, 8]"}});
  CHECK_THAT(notices_of(log), Contains("ema.average.") && Contains("have no place in this run and are left out"));
}

TEST_CASE("data of another shape are refused by their key", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  const TemporaryDirectory directory;
  EventLog log;
  train_on(experiment, directory, log, {{"dataset.num_classes", "4"}});
  experiment.train.steps = 4;
  auto source = *experiment.dataset.source.get_if<dataset::SyntheticImagesConfig>();
  source.num_classes = 5;
  experiment.dataset.source = source;
  CHECK_THROWS_WITH(train_on(experiment, directory, log, {{"dataset.num_classes", "5"}}),
                    Contains("can't go on with dataset.num_classes: 4 -> 5") && !Contains("another version"));
  // Only what decides the shapes of the network is named.
  experiment.train.loss_spikes = LossSpikesConfig{};
  experiment.optimizer.lr = 0.5;
  CHECK_THROWS_WITH(
      train_on(experiment, directory, log,
               {{"dataset.num_classes", "5"}, {"optimizer.lr", "0.5"}, {"train.loss_spikes.window", "8"}}),
      Contains("dataset.num_classes: 4 -> 5") && !Contains("optimizer.lr") && !Contains("loss_spikes"));
}

TEST_CASE("state of another version is refused with its cause and what to do", "[train][regression]") {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 2;
  experiment.optimizer.rule = optimizer::SgdConfig{.momentum = 0.9};
  const TemporaryDirectory directory;
  EventLog log;
  train_on(experiment, directory, log);
  // Rmsprop kept its momentum under sgd's name once. Equal configs leave the version as the cause.
  experiment.optimizer.rule = optimizer::RmspropConfig{.momentum = 0.9};
  const std::string newest = (directory.path() / "checkpoints/latest").string();
  try {
    train_on(experiment, directory, log);
    FAIL("it went on");
  } catch (const core::Error& error) {
    CHECK_THAT(error.text(), Contains("another version of trainctl") && Contains("model.init_from=" + newest));
  }
  const std::unique_ptr<Run> used = build_run(experiment);
  restore_for_use(*used, newest, {}, log);
  const at::Tensor saved = checkpoint::Checkpoint(newest).read_whole("model.").at("head.fc.weight");
  CHECK(MapState::of(*used).tensors.at("model.head.fc.weight").equal(saved));
}

TEST_CASE("data whose classes or categories mean something else is refused at a resume", "[train][regression]") {
  const TemporaryDirectory directory;
  const TemporaryDirectory files;
  const auto experiment = [&](const std::string& city, const std::string& label, std::int64_t steps) {
    std::string text = "x,city,label\n";
    for (int row = 0; row < 64; ++row)
      text +=
          std::to_string(row % 7) + "," + (row % 3 == 0 ? city : "Rome") + "," + (row % 2 == 0 ? label : "no") + "\n";
    experiment::Experiment table = small_experiment();
    dataset::TableConfig source;
    source.train = {files.write("t.csv", text)};
    source.label = "label";
    table.dataset.source = source;
    table.model.network = model::MlpConfig{.hidden = {4}};
    table.train.steps = steps;
    return table;
  };
  EventLog log;
  train_on(experiment("Oslo", "yes", 2), directory, log);
  CHECK_THROWS_WITH(train_on(experiment("Oslo", "maybe", 4), directory, log),
                    Contains("the classes were no and yes in training, and the data's are maybe and no"));
  CHECK_THROWS_WITH(train_on(experiment("Paris", "yes", 4), directory, log),
                    Contains("column 'city' becomes other inputs than in training"));
  train_on(experiment("Oslo", "yes", 4), directory, log);
}

}  // namespace trainctl::train::resume_changes_test
