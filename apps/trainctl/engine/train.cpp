#include <torch/headeronly/version.h>
#include <cstdio>

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
  /// "" until it is chosen.
  const fs::path& run_directory() const { return directory_; }
  const RankLog* log() const { return log_ ? &*log_ : nullptr; }

 private:
  bool is_first() const { return world_ == nullptr || world_->launch().rank == 0; }
  void choose_directory();
  /// Samples of a step where the run goes on with other ranks than it began with; 0: as the config says.
  std::int64_t kept_global_batch() const;
  int train(Place place);
  std::unique_ptr<Tracker> make_tracker(bool reports) const;
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
};

/// The first rank's choice is everyone's.
void Training::choose_directory() {
  const LoadedExperiment& loaded = call_.loaded;
  if (!is_first()) {
    const std::string chosen = world_->share("");
    const std::size_t end = chosen.find('\n');
    directory_ = chosen.substr(0, end);
    if (end + 1 < chosen.size()) resume_from_ = chosen.substr(end + 1);
    log_.emplace(directory_, world_->launch().rank);
    return;
  }
  RunDirectory chosen = choose_run_directory({loaded.experiment.name, call_.run_dir, call_.resume, hash_});
  describe_run_directory(chosen.path, loaded.resolved_yaml, hash_);
  if (chosen.notice) notices_.push_back(*chosen.notice);
  directory_ = chosen.path;
  resume_from_ = chosen.resume_from;
  lock_.emplace(std::move(chosen.lock));
  if (world_ == nullptr) return;
  std::string word = fs::absolute(directory_).string();
  word += '\n';
  if (resume_from_) word += fs::absolute(*resume_from_).string();
  world_->share(word);
}

/// What was asked for then is still asked for, unless the user has changed it.
std::int64_t Training::kept_global_batch() const {
  if (!resume_from_) return 0;
  const CheckpointInfo info = read_info(*resume_from_);
  for (const char* key : {"dataset.batch_size", "accumulation.steps"}) {
    const auto then = info.config.find(key);
    const auto now = call_.loaded.flat.find(key);
    if (then == info.config.end() || now == call_.loaded.flat.end() || then->second != now->second) return 0;
  }
  return info.global_batch;
}

std::unique_ptr<Tracker> Training::make_tracker(bool reports) const {
  const Console console = reports || world_ != nullptr ? console_of(call_.show) : Console::quiet;
  return build(call_.loaded.experiment.tracking,
               TrackerOptions{.run_directory = directory_,
                              .console = reports || console == Console::quiet ? console : Console::lines,
                              .records = reports ? Records::files : Records::none,
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
  place.global_batch = kept_global_batch();
  std::vector<Notice> notices = notices_;
  const std::unique_ptr<Run> run = build(call_.loaded.experiment, notices, place);
  if (world_ != nullptr) world_->agree({{"data", run->data.fingerprint}});
  const std::unique_ptr<Tracker> tracker = make_tracker(run->is_first());
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
    return signal == 0 ? 0 : 128 + signal;
  } catch (const std::exception& error) {
    if (!world) throw;
    end_failed_rank(*world, error, training.run_directory(), training.log());
  }
}

}  // namespace trainctl
