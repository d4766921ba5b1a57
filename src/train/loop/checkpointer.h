// The saved states of a run: its checkpoints, its snapshots in memory, and the way back to the newest checkpoint.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/node_snapshots.h"
#include "tracking/event.h"
#include "train/loop/stop_signal.h"
#include "train/run/restore.h"
#include "train/run/run.h"

namespace trainctl::train {

/// Each rank has one, and all call the same functions at the same step.
class Checkpointer {
 public:
  /// `config`: flattened, for the checkpoints and their comparison. `deferral` is told of complete checkpoints. The
  /// references outlive this.
  Checkpointer(Run& run, tracking::Sink& sink, StopSignal::Deferral& deferral, std::filesystem::path run_directory,
               std::map<std::string, std::string> config);

  /// Saves the run, unless its step is saved already. After the last step nothing goes on beside the writer.
  void save(checkpoint::Writing writing = checkpoint::Writing::beside_training);
  /// Saves the run over the checkpoint of its step, which lacks the evaluation that was made since.
  void save_again();
  bool is_snapshot_due() const;
  /// Copies the run into memory if a snapshot is due. A run whose processes are killed goes on from it, until the next
  /// checkpoint.
  void take_snapshot();
  /// Ends the run: waits until the checkpoint is there for all ranks to read, and removes the snapshots.
  void close();
  /// Restores the newest checkpoint. The run goes on with the data after the current batch.
  void roll_back();
  /// Returns whether there is a checkpoint to roll back to. Waits for the one that is being written.
  bool can_roll_back();

 private:
  void take_up_lineage();
  void forget_lost_best();
  void refuse_non_finite() const;
  std::vector<ResumePoint> own_points();
  checkpoint::CheckpointInfo info() const;

  Run& run_;
  tracking::Sink& sink_;
  std::filesystem::path directory_;
  std::map<std::string, std::string> config_;
  checkpoint::Saver saver_;
  std::optional<checkpoint::NodeSnapshots> snapshots_;
  std::int64_t saved_step_ = -1;
  std::int64_t foreign_step_ = 0;  // at which the run came from another directory; 0: it didn't
};

}  // namespace trainctl::train
