// A run put back to where a checkpoint left it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "train/run/run.h"

namespace trainctl::train {

/// What a run may go on from: a step directory, or the parts of a snapshot.
struct ResumePoint {
  std::filesystem::path step_directory;
  std::vector<std::filesystem::path> parts;
  std::int64_t step = 0;

  /// "runs/a/checkpoints/step_00000100", "the snapshot of step 120".
  std::string name() const;
  checkpoint::Checkpoint open() const;
};

/// What there is to go on from.
struct ResumeRequest {
  std::optional<std::filesystem::path> chosen = {};     // the first rank's: a complete step directory
  bool takes_newest = false;                            // of the first rank: newer snapshots too, older ones if need be
  std::optional<std::filesystem::path> snapshots = {};  // of this node
};
/// The points to try, best first, the same on all ranks; called by all. Notices tell of snapshots.
std::vector<ResumePoint> agree_on_points(const ResumeRequest& wish, comm::Group& group,
                                         std::vector<tracking::Notice>& notices);

/// Returns the config with checksums of tokenizers, chat templates and scripted networks, and with those of a teacher
/// or a reference (Run::companion_checksums). A run names such files, and has no copy of them. A checkpoint keeps them,
/// so that restoring warns where a file has changed.
std::map<std::string, std::string> with_contents(const std::map<std::string, std::string>& config,
                                                 const std::map<std::string, std::string>& companions = {});

/// Loads weights, optimizer, scaler, averages and the place in the data. `sink` gets a notice of each difference from
/// the checkpoint: changed config keys, other data, state that has no place. All ranks call it. If a file is damaged
/// for one rank, all ranks throw.
void restore(Run& run, const std::filesystem::path& step_directory, const std::map<std::string, std::string>& config,
             tracking::Sink& sink);
/// Loads what restore() loads, for a command that uses the model: other data are no difference, and changed config keys
/// are only worth an info.
void restore_for_use(Run& run, const std::filesystem::path& step_directory,
                     const std::map<std::string, std::string>& config, tracking::Sink& sink);

/// Restores the run from the first of `points` whose files aren't damaged; `sink` gets a notice of the others. All
/// ranks call it with the same points. Throws Error if all are damaged.
void restore_first(Run& run, const std::vector<ResumePoint>& points, const std::map<std::string, std::string>& config,
                   tracking::Sink& sink);

/// The step directory that `path` means (a step, checkpoints or run directory, whose newest complete one is taken).
/// `passed_over` gets what is wrong with newer ones.
std::filesystem::path step_directory_of(const std::filesystem::path& path,
                                        std::vector<std::string>* passed_over = nullptr);

}  // namespace trainctl::train
