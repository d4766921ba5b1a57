// Removes runs or checkpoints that the user names by a rule. First it is said what would go, and only then removed.
// A run that a process trains is never touched, and no link is followed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runs/runs.h"

namespace trainctl::runs {

/// The checkpoint of a run that stays.
enum class KeptCheckpoint {
  all,
  best,  // of a run that keeps none, the newest
  newest,
};

struct CleanRules {
  bool failed_starts = false;  // runs without a record and without a checkpoint
  bool whole_runs = false;     // runs with all that they have
  KeptCheckpoint checkpoints = KeptCheckpoint::all;
};

/// A directory that goes: a run, or a checkpoint of one.
struct Removal {
  std::filesystem::path path;
  std::filesystem::path run;
  std::string reason;
  std::uint64_t bytes = 0;
};

struct CleanPlan {
  std::vector<Removal> removals;
  std::vector<std::string> kept;     // what stays though a rule takes it, with the reason
  std::vector<std::string> damaged;  // what is wrong with checkpoints that stay
};

/// Reads every byte of a step directory. Returns what is damaged in it; "" if the checkpoint is sound.
using DamageOf = std::function<std::string(const std::filesystem::path& step_directory)>;

/// Returns what the rules remove of these runs. A run that has not finished keeps its newest checkpoint, from which it
/// goes on. The checkpoints that stay are read: beside a damaged one, the newest sound one stays.
CleanPlan plan_clean(const std::vector<RunEntry>& runs, const CleanRules& rules, const DamageOf& damage_of);

struct CleanResult {
  std::size_t num_removed = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> problems;  // what could not be removed, with the reason
};

/// Removes what was planned, and directories of a name below `root` that are empty then. A run in which a process has
/// begun to train since then stays.
CleanResult clean(const CleanPlan& plan, const std::filesystem::path& root);

}  // namespace trainctl::runs
