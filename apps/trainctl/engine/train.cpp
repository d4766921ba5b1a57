#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <thread>

#include "checkpoint/node_snapshots.h"
#include "choices.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "dataset/description.h"
#include "dataset/loader/loader.h"
#include "engine.h"
#include "experiment/config_hash.h"
#include "plan/choose.h"
#include "plan/memory/kernel_workspaces.h"
#include "plan/out_of_memory.h"
#include "plan/prediction.h"
#include "provenance_file.h"
#include "ranks.h"
#include "sample_view.h"
#include "train/loop/trainer.h"
#include "train/run/provenance.h"
#include "train/run/replicas.h"
#include "train/run/restore.h"

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;
using OpenData = std::function<dataset::Datasets(const dataset::LoaderOptions&)>;

/// A process's part of a training: alone, or as one of several ranks.
class Training {
 public:
  Training(const cli::EngineCall& call, comm::World* world) : call_(call), world_(world) {}

  /// Chooses the run directory, and values for each `auto`. The first rank chooses for all ranks.
  void prepare();
  /// Trains as one rank. Returns the signal that stopped it, or 0.
  int train(train::RankContext rank);
  /// Waits a little for the signal that another rank has received already. A launcher that restarts ranks counts the
  /// end of a rank as a failure, unless the launcher asked for it.
  void wait_for_own_signal() const;
  const experiment::Experiment& experiment() const { return loaded_.experiment; }
  /// Returns the run directory; "" until it is chosen.
  const fs::path& run_directory() const { return directory_; }
  /// Whether this start took steps, or ended a run that had taken all of them: its tracker removed an older summary.
  bool has_trained() const { return has_trained_; }
  const RankLog* log() const { return log_ ? &*log_ : nullptr; }

 private:
  void choose_directory();
  /// Chooses a value for each `auto`. The first rank chooses for all ranks, and the values are kept in the run
  /// directory.
  void choose_values();
  /// Returns the values of the run that is resumed.
  experiment::AutoValues former_values() const;
  experiment::AutoValues share(const experiment::AutoValues& values) const;
  /// Returns the samples per step of a run that resumes with another number of ranks; 0 if the config's count holds.
  std::int64_t kept_global_batch(const checkpoint::CheckpointInfo& info) const;
  std::optional<checkpoint::CheckpointInfo> resumed_info(const std::vector<train::ResumePoint>& points) const;
  OpenData data_of(const checkpoint::CheckpointInfo& info) const;
  std::vector<train::ResumePoint> resume_points(comm::Group& group, std::vector<tracking::Notice>& notices) const;
  void remember_job(std::int64_t global_batch) const;
  std::unique_ptr<tracking::Tracker> make_tracker(const train::Run& run) const;
  train::TrainerOptions trainer_options(train::Run& run, std::map<std::string, std::string> config);
  plan::DryRunOptions plan_options(const train::Run& run) const;
  plan::MemoryLimit memory_limit(const train::Run& run) const;
  /// Tells the predicted memory and time before the first step; warns if the memory does not suffice.
  void predict(const train::Run& run, tracking::Sink& sink) const;
  void tell_finished(const train::Run& run) const;
  bool renew_directory();
  std::string next_command() const;
  std::string resume_command() const;

  const cli::EngineCall& call_;
  comm::World* world_;
  const train::StopSignal stop_;
  std::string hash_ = experiment::config_hash(call_.loaded.flat);
  experiment::LoadedExperiment loaded_ = call_.loaded;  // with values for what is `auto`
  experiment::AutoValues values_;
  fs::path directory_;
  std::optional<fs::path> resume_from_;
  std::optional<train::DirectoryLock> lock_;
  std::optional<RankLog> log_;
  std::vector<tracking::Notice> notices_;
  std::optional<train::LaunchRecord> job_;  // of the first rank
  bool was_finished_ = false;               // the run in the directory had come to its end
  bool has_trained_ = false;                // on the first rank
  std::int64_t global_batch_ = 0;           // of the job, where it was started before
};

/// A sink that keeps notices until there is a tracker.
class NoticeList final : public tracking::Sink {
 public:
  explicit NoticeList(std::vector<tracking::Notice>& notices) : notices_(notices) {}
  void on(const tracking::Event& event) override {
    if (const auto* notice = std::get_if<tracking::Notice>(&event)) notices_.push_back(*notice);
  }

 private:
  std::vector<tracking::Notice>& notices_;
};

constexpr std::chrono::seconds kSignalDelay{3};
/// The longest wait for an earlier process of the run to end: torchrun gives that process half a minute.
constexpr std::chrono::milliseconds kLongestPatience{60'000};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

experiment::AutoValues Training::former_values() const {
  try {
    if (resume_from_)
      return experiment::recorded_values(train::ResumePoint{.step_directory = *resume_from_}.open().info().config);
  } catch (const std::exception&) {  // damaged: whoever restores says so
    return {};
  }
  return job_ ? job_->values : experiment::AutoValues{};
}

/// Returns the first rank's values. The ranks exchange the batch size, 0 for none, and the kind of recomputation.
experiment::AutoValues Training::share(const experiment::AutoValues& values) const {
  const std::string own_kind(values.blocks ? values.blocks->kind() : "");
  std::istringstream shared(world_->broadcast_text(std::to_string(values.batch_size.value_or(0)) + " " + own_kind));
  std::int64_t batch_size = 0;
  std::string kind;
  shared >> batch_size >> kind;
  experiment::AutoValues chosen;
  if (batch_size > 0) chosen.batch_size = batch_size;
  chosen.blocks = experiment::recomputation_named(kind);
  return chosen;
}

void Training::choose_values() {
  const bool has_choices = plan::has_choices(loaded_.experiment);
  if (has_choices && is_first(world_)) {
    const Ranks ranks = ranks_of(loaded_.experiment, world_ == nullptr ? nullptr : &world_->launch());
    values_ = engine::choose_values(loaded_.experiment, ranks, former_values(), notices_);
  }
  if (has_choices && world_ != nullptr) values_ = share(values_);
  if (has_choices) loaded_ = experiment::with_values(loaded_, values_);
  if (is_first(world_) && !was_finished_) train::describe_run_directory(directory_, loaded_.resolved_yaml, hash_);
}

/// Chooses the run directory on the first rank, and shares it with the others.
void Training::choose_directory() {
  const experiment::LoadedExperiment& loaded = call_.loaded;
  if (!is_first(world_)) {
    const std::vector<std::string> chosen = lines_of(world_->broadcast_text(""));
    directory_ = chosen.at(0);
    if (!chosen.at(1).empty()) resume_from_ = chosen.at(1);
    global_batch_ = std::stoll(chosen.at(2));
    was_finished_ = chosen.at(3) == "finished";
    log_.emplace(directory_, world_->launch().rank);
    return;
  }
  train::RunDirectory chosen = train::choose_run_directory(
      {.name = loaded.experiment.name,
       .run_dir = call_.run_dir,
       .resume = call_.options<cli::TrainOptions>().resume,
       .config_hash = hash_,
       .snapshot = loaded.experiment.checkpoint.in_memory,
       .launchers = world_ == nullptr ? std::vector<std::string>{} : world_->launchers(),
       .patience = std::min(timeout_of(loaded.experiment.distributed) / 2, kLongestPatience)});
  notices_ = std::move(chosen.notices);
  directory_ = chosen.path;
  resume_from_ = chosen.resume_from;
  job_ = std::move(chosen.job);
  lock_.emplace(std::move(chosen.lock));
  global_batch_ = job_ ? job_->global_batch : 0;
  was_finished_ = train::is_finished(directory_);
  if (world_ == nullptr) return;
  const std::string from = resume_from_ ? fs::absolute(*resume_from_).string() : "";
  world_->broadcast_text(fs::absolute(directory_).string() + "\n" + from + "\n" + std::to_string(global_batch_) + "\n" +
                         (was_finished_ ? "finished\n" : "unfinished\n"));
}

/// Keeps the checkpoint's samples per step, unless the user has changed the keys of the batch.
std::int64_t Training::kept_global_batch(const checkpoint::CheckpointInfo& info) const {
  return experiment::has_same_batches(loaded_.experiment, info.config) ? info.global_batch : 0;
}

/// Returns what the first readable checkpoint says; none without one. Damaged ones are reported later, when the run is
/// restored.
std::optional<checkpoint::CheckpointInfo> Training::resumed_info(const std::vector<train::ResumePoint>& points) const {
  for (const train::ResumePoint& point : points) {
    try {
      return point.open().info();
    } catch (const core::Error&) {
      continue;
    }
  }
  return std::nullopt;
}

/// Returns a function that opens the data as the checkpoint knows them.
OpenData Training::data_of(const checkpoint::CheckpointInfo& info) const {
  if (info.data_description.empty()) return {};
  return [config = loaded_.experiment.dataset, info](const dataset::LoaderOptions& options) {
    const dataset::Datasets described = dataset::described_datasets(info.data_description, info.data_fingerprint);
    return dataset::build_as_trained(config, options, described.train->spec());
  };
}

/// Agrees with the other ranks on checkpoints: the one that the first rank chose, and the snapshots of the nodes.
std::vector<train::ResumePoint> Training::resume_points(comm::Group& group,
                                                        std::vector<tracking::Notice>& notices) const {
  train::ResumeRequest wish;
  const std::optional<checkpoint::SnapshotConfig>& snapshot = loaded_.experiment.checkpoint.in_memory;
  if (snapshot) wish.snapshots = checkpoint::snapshot_directory(*snapshot, directory_);
  if (group.rank() == 0) {
    wish.chosen = resume_from_;
    wish.takes_newest = call_.options<cli::TrainOptions>().resume == "auto" || job_;
  }
  return train::agree_on_points(wish, group, notices);
}

void Training::remember_job(std::int64_t global_batch) const {
  train::LaunchRecord job = job_.value_or(train::LaunchRecord{});
  const std::string& resume = call_.options<cli::TrainOptions>().resume;
  const bool is_named = resume != "auto" && resume != "never";
  if (!job_ && is_named && resume_from_) job.resumed_from = fs::absolute(*resume_from_).string();
  job.launchers = world_->launchers();
  job.global_batch = global_batch;
  job.values = values_;
  if (!job.launchers.empty()) train::write_launch_record(directory_, std::move(job));
}

void Training::wait_for_own_signal() const {
  if (world_ == nullptr || world_->launchers().empty()) return;
  const auto deadline = std::chrono::steady_clock::now() + kSignalDelay;
  while (stop_.received() == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::unique_ptr<tracking::Tracker> Training::make_tracker(const train::Run& run) const {
  const std::int64_t rank = run.mesh->world().rank();
  const bool reports = rank == 0;
  const tracking::Console console = reports || world_ != nullptr ? console_of(call_.show) : tracking::Console::quiet;
  std::unique_ptr<tracking::Tracker> tracker = tracking::build(
      loaded_.experiment.tracking,
      tracking::TrackerOptions{
          .run_directory = directory_,
          .run_name = loaded_.experiment.name,
          .config = loaded_.flat,
          .console = reports || console == tracking::Console::quiet ? console : tracking::Console::lines,
          .records = reports ? tracking::Records::files : tracking::Records::none,
          .rank = rank,
          .resumed = run.step > 0,
          .first_step = run.step});
  if (reports) write_provenance(directory_, run, loaded_);
  if (reports && loaded_.experiment.tracking.report) tracker->add(tracking::make_report_process(directory_));
  return tracker;
}

plan::DryRunOptions Training::plan_options(const train::Run& run) const {
  return {.world = run.mesh->world().size(), .device = plan::planned(run.device)};
}

plan::MemoryLimit Training::memory_limit(const train::Run& run) const {
  const Ranks ranks = ranks_of(run.experiment, world_ == nullptr ? nullptr : &world_->launch());
  return plan::memory_of(run.experiment, run.device, ranks.local_world);
}

/// Prints the prediction. A run that surely takes more memory than it may is refused.
void Training::predict(const train::Run& run, tracking::Sink& sink) const {
  std::optional<plan::MemoryPlan> memory;  // that doesn't fit
  try {
    plan::KernelWorkspaces workspaces(plan::MeasuredRates::default_directory());
    plan::DryRunOptions options = plan_options(run);
    options.workspaces = &workspaces;
    options.data = &run.data.train->spec();
    options.longest_text = dataset::longest_sample(*run.data.train);
    const plan::RecordedPlan plan =
        plan::plan_with_operations(run.experiment, options, memory_limit(run), plan::FitSearch::none);
    sink.on(tracking::Notice{tracking::Level::info,
                             plan::prediction_line(plan, {run.device, plan::MeasuredRates::default_directory()})});
    if (!plan.memory.fits()) memory = plan.memory;
  } catch (const core::Error& error) {
    sink.on(tracking::Notice{tracking::Level::info, std::string("memory is not estimated: ") + error.what()});
  }
  if (!memory) return;
  // Batches of pairs are rarely as long as both limits allow.
  const bool is_longest_known = run.data.train->spec().target_length == 0;
  if (is_longest_known && memory->surely_exceeds()) throw plan::refusal_of(*memory, run.experiment.device);
  sink.on(tracking::Notice{tracking::Level::warning, "this won't fit: it " + plan::warning_of(*memory)});
}

/// Returns the command that a user of the trained model is likely to need next.
std::string Training::next_command() const {
  const model::Output output = config::traits_of(loaded_.experiment.task).output;
  if (output == model::Output::next_tokens || output == model::Output::target_tokens)
    return "trainctl generate " + directory_.string() + " --prompt TEXT";
  if (output == model::Output::masked_tokens) return "trainctl export " + directory_.string();
  return "trainctl predict " + directory_.string() + " DATA";
}

/// Returns the command that goes on with this run, whatever --set the user gave. A launcher starts its job as before.
std::string Training::resume_command() const {
  if (world_ != nullptr) return "repeat the command";
  return "trainctl train " + directory_.string();
}

train::TrainerOptions Training::trainer_options(train::Run& run, std::map<std::string, std::string> config) {
  train::TrainerOptions options{directory_, std::move(config), call_.process_start};
  options.next_command = next_command();
  options.resume_command = resume_command();
  if (run.is_first()) {
    options.renew_directory = [this] { return renew_directory(); };
    options.show_sample = make_sample_view(call_, run);
  }
  options.explain = [this, &run](const std::exception& error) -> std::string {
    if (plan::is_out_of_memory(error))
      return plan::explain_out_of_memory(run, error, plan_options(run), memory_limit(run)).what;
    return world_ == nullptr ? core::as_error(error).what() : explain_failure(*world_, error);
  };
  if (world_ == nullptr) return options;
  options.on_step = [world = world_](std::int64_t step) { world->set_step(step); };
  options.tell_doing = [world = world_](const std::string& doing, std::int64_t step) {
    world->tell_doing(doing, step);
  };
  options.diagnose_stall = [world = world_](std::int64_t step) { return world->diagnose_stall(step); };
  return options;
}

void Training::prepare() {
  if (world_ != nullptr) check_same_job(*world_, call_.loaded);
  choose_directory();
  choose_values();
}

/// Logs that the run has finished, without the tracker, which would write to the finished run's files.
void Training::tell_finished(const train::Run& run) const {
  const bool stopped_early = run.early_stopping && run.early_stopping->is_over();
  core::log().info(directory_.string() + " has finished: it stands at step " + core::format_count(run.step) + " of " +
                   core::format_count(run.length.total_steps) + (stopped_early ? ", where it stopped early" : "") +
                   ", and nothing is changed\n  try: a larger " +
                   (stopped_early ? "train.early_stopping.patience" : "train.steps or train.epochs") +
                   " to go on, or another --run-dir to start anew");
}

/// Creates again the files of a removed run directory that a later run needs; false if the directory was not removed.
/// A removal that still goes on may also take the new files, but not the lock: they are written once more, silently.
bool Training::renew_directory() {
  const bool is_lost = !lock_ || lock_->is_lost();
  if (!is_lost && train::is_described(directory_)) return false;
  try {
    if (is_lost) {
      lock_.reset();
      lock_.emplace(directory_);
    }
    train::describe_run_directory(directory_, loaded_.resolved_yaml, hash_);
    return is_lost;
  } catch (const std::exception&) {  // it is still being removed, entry by entry: the next look tries again
    if (is_lost) lock_.reset();
    return false;
  }
}

int Training::train(train::RankContext rank) {
  std::vector<tracking::Notice> notices = notices_;
  const std::unique_ptr<comm::Group> own_group = rank.group == nullptr ? comm::alone() : nullptr;
  comm::Group& group = rank.group == nullptr ? *own_group : *rank.group;
  const std::vector<train::ResumePoint> points = resume_points(group, notices);
  const std::optional<checkpoint::CheckpointInfo> resumed = resumed_info(points);
  rank.global_batch = resumed ? kept_global_batch(*resumed) : global_batch_;
  if (resumed) rank.open_data = data_of(*resumed);
  const std::unique_ptr<train::Run> run = train::build(loaded_.experiment, notices, rank);
  if (world_ != nullptr) world_->check_consistent({{"data", run->data.fingerprint}});
  if (world_ != nullptr && is_first(world_)) remember_job(run->global_batch);
  NoticeList heard(notices);
  std::map<std::string, std::string> config = train::with_contents(loaded_.flat, run->companion_checksums);
  if (!points.empty()) train::restore_first(*run, points, config, heard);
  const bool is_stopped_early = run->early_stopping && run->early_stopping->is_over();
  const bool is_past_end = run->step > run->length.total_steps;
  if (is_past_end && !was_finished_ && !is_stopped_early)
    throw core::Error(directory_.string() + " is at step " + core::format_count(run->step) +
                      ", past the end that the config gives it, step " + core::format_count(run->length.total_steps))
        .hint("choose a larger train.steps or train.epochs, or go on from an earlier checkpoint: --resume PATH");
  if (is_past_end || (was_finished_ && (is_stopped_early || run->step == run->length.total_steps))) {
    if (run->is_first()) tell_finished(*run);
    return 0;
  }
  if (is_first(world_) && group.rank() == 0) {
    if (was_finished_) train::describe_run_directory(directory_, loaded_.resolved_yaml, hash_);
    tracking::cut_back_samples(directory_, run->step);
  }
  group.barrier();  // from here on ranks write to the run's files
  const std::unique_ptr<tracking::Tracker> tracker = make_tracker(*run);
  if (run->is_first() || world_ != nullptr) tell(*tracker, notices);
  if (run->is_first()) predict(*run, *tracker);
  if (run->is_first()) has_trained_ = true;
  train::Trainer trainer(*run, *tracker, stop_, trainer_options(*run, std::move(config)));
  try {
    return trainer.run();
  } catch (const std::exception& error) {
    if (world_ != nullptr) outlive_launcher();
    if (!plan::is_out_of_memory(error)) throw;
    const plan::MemoryReport report = plan::explain_out_of_memory(*run, error, plan_options(*run), memory_limit(*run));
    throw core::Error(report.what).hint(report.hint);
  }
}

/// Prints the run's summary if the call wants it. Throws core::Error if this start should have written one, and
/// couldn't.
void give_summary(const Training& training, const cli::EngineCall& call, int signal) {
  const fs::path summary = training.run_directory() / "summary.json";
  if (training.has_trained() && signal == 0 && !fs::exists(summary))
    throw core::Error("the run ended, but " + summary.string() + " could not be written")
        .hint("make room on the disk, and repeat the command");
  if (call.json) std::printf("%s\n", core::read_file(summary).c_str());
}

}  // namespace

int run_train(const cli::EngineCall& call) {
  const std::unique_ptr<comm::World> world = join_ranks(call.loaded.experiment);
  Training training(call, world.get());
  try {
    training.prepare();
    const experiment::Experiment& experiment = training.experiment();
    int signal = 0;
    if (config::traits_of(experiment.distributed.how).ranks_are_threads)
      signal = train::train_replicas(train::num_replicas(experiment.distributed, experiment.device),
                                     timeout_of(experiment.distributed),
                                     [&](const train::RankContext& rank) { return training.train(rank); });
    else
      signal = training.train(rank_context(world.get()));
    if (is_first(world.get())) give_summary(training, call, signal);
    if (signal != 0) training.wait_for_own_signal();
    return signal == 0 ? 0 : 128 + signal;
  } catch (const std::exception& error) {
    if (!world) throw;
    end_failed_rank(*world, error, training.run_directory(), training.log());
  }
}

}  // namespace trainctl::engine
