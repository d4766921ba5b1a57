#include <torch/headeronly/version.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <thread>

#include "core/file.h"
#include "core/version.h"
#include "engine.h"
#include "ranks.h"
#include "train/provenance.h"
#include "train/replicas.h"
#include "train/trainer.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;

/// One process's part of a training: alone, or a rank of many.
class Training {
 public:
  Training(const EngineCall& call, World* world) : call_(call), world_(world) {}

  /// The signal that stopped it, or 0.
  int run();
  void wait_for_own_signal() const;
  /// "" until it is chosen.
  const fs::path& run_directory() const { return directory_; }
  const RankLog* log() const { return log_ ? &*log_ : nullptr; }

 private:
  bool is_first() const { return world_ == nullptr || world_->launch().rank == 0; }
  void choose_directory();
  /// Samples of a step where the run goes on with other ranks than it began with; 0: as the config says.
  std::int64_t kept_global_batch() const;
  void remember_job(std::int64_t global_batch) const;
  int train(Place place);
  std::unique_ptr<Tracker> make_tracker(std::int64_t rank) const;
  TrainerOptions trainer_options() const;

  const EngineCall& call_;
  World* world_;
  const StopSignal stop_;
  std::string hash_ = config_hash(call_.loaded.flat);
  fs::path directory_;
  std::optional<fs::path> resume_from_;
  std::optional<DirectoryLock> lock_;
  std::optional<RankLog> log_;
  std::vector<Notice> notices_;
  std::optional<Job> job_;  // of the first rank
  std::int64_t global_batch_ = 0;
};

constexpr std::chrono::seconds kSignalDelay{3};
constexpr std::chrono::milliseconds kLongestPatience{60'000};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The first rank's choice is everyone's.
void Training::choose_directory() {
  const LoadedExperiment& loaded = call_.loaded;
  if (!is_first()) {
    const std::vector<std::string> chosen = lines_of(world_->share(""));
    directory_ = chosen.at(0);
    if (!chosen.at(1).empty()) resume_from_ = chosen.at(1);
    global_batch_ = std::stoll(chosen.at(2));
    log_.emplace(directory_, world_->launch().rank);
    return;
  }
  RunDirectory chosen =
      choose_run_directory({.name = loaded.experiment.name,
                            .run_dir = call_.run_dir,
                            .resume = call_.resume,
                            .config_hash = hash_,
                            .launchers = world_ == nullptr ? std::vector<std::string>{} : world_->launchers(),
                            .patience = std::min(timeout_of(loaded.experiment.distributed) / 2, kLongestPatience)});
  describe_run_directory(chosen.path, loaded.resolved_yaml, hash_);
  notices_ = std::move(chosen.notices);
  directory_ = chosen.path;
  resume_from_ = chosen.resume_from;
  job_ = std::move(chosen.job);
  lock_.emplace(std::move(chosen.lock));
  cut_back_samples(directory_, step_of(resume_from_));
  global_batch_ = kept_global_batch();
  if (world_ == nullptr) return;
  const std::string from = resume_from_ ? fs::absolute(*resume_from_).string() : "";
  world_->share(fs::absolute(directory_).string() + "\n" + from + "\n" + std::to_string(global_batch_) + "\n");
}

/// What was asked for then is still asked for, unless the user has changed it.
std::int64_t Training::kept_global_batch() const {
  if (!resume_from_) return job_ ? job_->global_batch : 0;
  const CheckpointInfo info = read_info(*resume_from_);
  for (const char* key : {"dataset.batch_size", "accumulation.steps"}) {
    const auto then = info.config.find(key);
    const auto now = call_.loaded.flat.find(key);
    if (then == info.config.end() || now == call_.loaded.flat.end() || then->second != now->second) return 0;
  }
  return info.global_batch;
}

void Training::remember_job(std::int64_t global_batch) const {
  Job job = job_.value_or(Job{});
  const bool is_named = call_.resume != "auto" && call_.resume != "never";
  if (!job_ && is_named && resume_from_) job.resumed_from = fs::absolute(*resume_from_).string();
  job.launchers = world_->launchers();
  job.global_batch = global_batch;
  if (!job.launchers.empty()) write_job(directory_, std::move(job));
}

void Training::wait_for_own_signal() const {
  if (world_ == nullptr || world_->launchers().empty()) return;
  const auto deadline = std::chrono::steady_clock::now() + kSignalDelay;
  while (stop_.received() == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::unique_ptr<Tracker> Training::make_tracker(std::int64_t rank) const {
  const bool reports = rank == 0;
  const Console console = reports || world_ != nullptr ? console_of(call_.show) : Console::quiet;
  return build(call_.loaded.experiment.tracking,
               TrackerOptions{.run_directory = directory_,
                              .console = reports || console == Console::quiet ? console : Console::lines,
                              .records = reports ? Records::files : Records::none,
                              .rank = rank,
                              .resumed = resume_from_.has_value(),
                              .first_step = step_of(resume_from_)});
}

TrainerOptions Training::trainer_options() const {
  TrainerOptions options{directory_, resume_from_, call_.loaded.flat, call_.process_start};
  if (world_ == nullptr) return options;
  options.on_step = [world = world_](std::int64_t step) { world->set_step(step); };
  options.explain = [world = world_](const std::exception& error) { return explain_failure(*world, error); };
  return options;
}

int Training::run() {
  if (world_ != nullptr)
    world_->agree({{"config", hash_}, {"version", std::string(kVersion).append(", LibTorch ").append(TORCH_VERSION)}});
  choose_directory();
  const Experiment& experiment = call_.loaded.experiment;
  int signal = 0;
  if (const auto* replicas = experiment.distributed.how.get_if<DataParallelConfig>())
    signal = train_replicas(num_replicas(*replicas, experiment.device), timeout_of(experiment.distributed),
                            [this](const Place& place) { return train(place); });
  else if (world_ == nullptr)
    signal = train({});
  else
    signal = train({.group = &world_->group(),
                    .local_rank = world_->launch().local_rank,
                    .local_world_size = world_->launch().local_world_size});
  if (call_.json && is_first()) std::printf("%s\n", read_file(directory_ / "summary.json").c_str());
  return signal;
}

int Training::train(Place place) {
  place.global_batch = global_batch_;
  std::vector<Notice> notices = notices_;
  const std::unique_ptr<Run> run = build(call_.loaded.experiment, notices, place);
  if (world_ != nullptr) world_->agree({{"data", run->data.fingerprint}});
  if (world_ != nullptr && is_first()) remember_job(run->global_batch);
  const std::unique_ptr<Tracker> tracker = make_tracker(run->parallel->group().rank());
  if (run->is_first() || world_ != nullptr) tell(*tracker, notices);
  Trainer trainer(*run, *tracker, stop_, trainer_options());
  return trainer.run();
}

}  // namespace

int run_train(const EngineCall& call) {
  const std::unique_ptr<World> world = join_ranks(call.loaded.experiment);
  Training training(call, world.get());
  try {
    const int signal = training.run();
    if (signal != 0) training.wait_for_own_signal();
    return signal == 0 ? 0 : 128 + signal;
  } catch (const std::exception& error) {
    if (!world) throw;
    end_failed_rank(*world, error, training.run_directory(), training.log());
  }
}

}  // namespace trainctl
