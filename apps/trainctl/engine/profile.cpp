#include <cstdio>
#include <sstream>

#include "core/file.h"
#include "core/terminal.h"
#include "engine.h"
#include "experiment/config_hash.h"
#include "ranks.h"
#include "train/loop/profile_loop.h"
#include "train/run/provenance.h"

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;

/// A process's part of a profile: alone, or as one of several ranks.
class Profiling {
 public:
  Profiling(const cli::EngineCall& call, comm::World* world) : call_(call), world_(world) {}

  /// Profiles; returns the signal that stopped the run, or 0.
  int run() {
    choose_directory();
    const experiment::LoadedExperiment& loaded = call_.loaded;
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<train::Run> run = train::build(loaded.experiment, notices, rank_context(world_));
    // Records are written as training would, since they may be what is slow.
    const std::unique_ptr<tracking::Tracker> tracker = tracking::build(
        loaded.experiment.tracking,
        tracking::TrackerOptions{.run_directory = directory_,
                                 .console = is_first(world_) ? console_of(call_.show) : tracking::Console::quiet,
                                 .records = is_first(world_) ? tracking::Records::files : tracking::Records::none,
                                 .rank = run->mesh->world().rank()});
    if (is_first(world_)) tell(*tracker, notices);
    train::TrainerOptions options{directory_, loaded.flat, call_.process_start};
    if (world_ != nullptr) options.on_step = [world = world_](std::int64_t step) { world->set_step(step); };
    const profiler::ProfileSummary summary = train::profile_steps(*run, *tracker, stop_, options);
    if (is_first(world_)) print(summary);
    return stop_.received();
  }

  const fs::path& run_directory() const { return directory_; }

 private:
  /// Chooses the directory on the first rank, and shares it with the others.
  void choose_directory() {
    if (!is_first(world_)) {
      std::istringstream chosen(world_->broadcast_text(""));
      std::string line;
      std::getline(chosen, line);
      directory_ = line;
      return;
    }
    const experiment::LoadedExperiment& loaded = call_.loaded;
    const std::string hash = experiment::config_hash(loaded.flat);
    train::RunDirectory chosen =
        train::choose_run_directory({loaded.experiment.name + "-profile", call_.run_dir, "never", hash});
    train::describe_run_directory(chosen.path, loaded.resolved_yaml, hash);
    directory_ = chosen.path;
    lock_.emplace(std::move(chosen.lock));
    if (world_ != nullptr) world_->broadcast_text(fs::absolute(directory_).string() + "\n");
  }

  void print(const profiler::ProfileSummary& summary) const {
    if (call_.json)
      std::printf("%s", core::read_file(directory_ / "profile" / "summary.json").c_str());
    else
      core::print(stdout, "%s", profiler::format_text(summary).c_str());
  }

  const cli::EngineCall& call_;
  comm::World* world_;
  const train::StopSignal stop_;
  fs::path directory_;
  std::optional<train::DirectoryLock> lock_;
};

}  // namespace

int run_profile(const cli::EngineCall& call) {
  const std::unique_ptr<comm::World> world = join_ranks(call.loaded.experiment);
  Profiling profiling(call, world.get());
  try {
    if (world) check_same_job(*world, call.loaded);
    const int signal = profiling.run();
    return signal == 0 ? 0 : 128 + signal;
  } catch (const std::exception& error) {
    if (!world) throw;
    end_failed_rank(*world, error, profiling.run_directory(), nullptr);
  }
}

}  // namespace trainctl::engine
