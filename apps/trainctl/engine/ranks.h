// A command's part in a job of many processes: whether there are others, where their logs are, what is said when one of
// them fails.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "comm/world.h"
#include "experiment/load.h"
#include "train/run/run.h"

namespace trainctl::engine {

/// How long ranks wait for each other.
std::chrono::milliseconds timeout_of(const distributed::DistributedConfig& config);

/// Meets the other ranks; null where this process is alone, or the config wants it to be.
std::unique_ptr<comm::World> join_ranks(const experiment::Experiment& experiment);

/// Throws on every rank where one runs another program or another experiment than rank 0, naming rank and key.
void check_same_job(comm::World& world, const experiment::LoadedExperiment& loaded);

/// Whether this process is rank 0, or alone (null).
bool is_first(const comm::World* world);
/// Returns this process's rank for build(); null: it is alone.
train::RankContext rank_context(comm::World* world);

/// Standard output and error of a rank other than the first, as they were, while they go to its log.
class RankLog {
 public:
  /// Into <run directory>/logs/rank_<n>.log, with what was said before where --nproc's parent kept it.
  RankLog(const std::filesystem::path& run_directory, std::int64_t rank);
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;
  ~RankLog();
  /// Where output went before: the launcher's.
  int outer() const { return outer_; }

 private:
  int outer_;
};

/// Tells the other ranks of this one's failure, or learns of theirs; what everyone ends with.
std::string explain_failure(comm::World& world, const std::exception& error);

/// Ignores the signals by which launchers end all ranks as soon as one is gone, since last words take a moment. Ctrl-C
/// ends the process as ever.
void outlive_launcher();

/// Ends the process of a failed rank, since pending network operations can't be cleaned up. Writes explain_failure() to
/// the rank's output, and its last collectives below `run_directory` ("": there is none yet).
[[noreturn]] void end_failed_rank(comm::World& world, const std::exception& error,
                                  const std::filesystem::path& run_directory, const RankLog* log);

}  // namespace trainctl::engine
