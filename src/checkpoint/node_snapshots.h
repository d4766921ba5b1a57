// Frequent copies of the state that each node keeps in memory, or on a disk of its own, between checkpoints. A node's
// ranks write together what all ranks have, and each what it alone has: what every rank has survives any node, a part
// survives its processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace trainctl::checkpoint {

/// The file in a run directory that holds its run's id. Whoever has locked it trains the run.
inline constexpr const char* kRunLock = ".lock";

/// Where this node keeps snapshots of the run. A run that begins anew in a directory has another place than the one
/// that was there before.
std::filesystem::path snapshot_directory(const SnapshotConfig& config, const std::filesystem::path& run_directory);

/// Keeps the newest two. Each member of the group has one, and all call the same functions at the same step.
class NodeSnapshots {
 public:
  /// Removes all snapshots of the run but that of `step`, from which the run goes on. Removes snapshots of other runs
  /// whose directories have been unchanged for more than two days.
  NodeSnapshots(std::filesystem::path directory, std::int64_t step, comm::Group& group);
  NodeSnapshots(const NodeSnapshots&) = delete;
  NodeSnapshots& operator=(const NodeSnapshots&) = delete;
  ~NodeSnapshots();
  /// Copies what this member writes and returns; waits for the write before it.
  void save(const ShownState& state, CheckpointInfo info);
  /// All of them, at the end of a run.
  void remove();
  /// Told that one could not be written; the run goes on without.
  std::function<void(const std::string&)> on_failure;

 private:
  struct Pending;
  bool finish_write();
  bool leads_node() const { return local_rank_ == 0; }

  std::filesystem::path directory_;
  comm::Group& group_;
  std::int64_t local_rank_ = 0;
  std::int64_t local_size_ = 0;
  std::int64_t attempt_ = 0;
  std::int64_t complete_ = 0;  // the newest step of which all members wrote their share
  std::unique_ptr<Pending> pending_;
};

/// A snapshot's parts on this node.
struct FoundSnapshot {
  std::int64_t step = 0;
  std::vector<std::filesystem::path> parts;
};
struct SnapshotSearch {
  std::optional<FoundSnapshot> found;
  std::vector<std::string> passed_over;  // newer ones, and what they lack
};
/// The newest one that the nodes have together, where it is of a step after `newer_than`; what a node lacks of it is
/// sent there. Called by all members; the step is the same on all.
SnapshotSearch find_snapshot(const std::filesystem::path& directory, std::int64_t newer_than, comm::Group& group);

/// Makes this node's directory of a step's snapshot, and the two above it, where nobody but this user may read or
/// write. Throws Error where another user could have left something there.
void make_step_directory(const std::filesystem::path& step_directory);

/// Whether there is anything for find_snapshot() on this node. Throws Error as above.
bool has_snapshots(const std::filesystem::path& directory);

}  // namespace trainctl::checkpoint
