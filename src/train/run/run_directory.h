// Which directory a run writes to, and which checkpoint it goes on from.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/config.h"
#include "tracking/event.h"
#include "train/run/launch_record.h"

namespace trainctl::train {

/// Held by one process at a time.
class DirectoryLock {
 public:
  /// Creates the directory; an Error when another process holds it for longer than `patience`.
  explicit DirectoryLock(const std::filesystem::path& directory, std::chrono::milliseconds patience = {});
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();
  static bool is_held(const std::filesystem::path& directory);
  /// Whether the file that is locked has been removed or moved: somebody else may have the directory now.
  bool is_lost() const;

 private:
  std::filesystem::path path_;  // of the locked file
  int descriptor_;
};

struct RunDirectoryRequest {
  std::string name;             // of the experiment
  std::string run_dir;          // --run-dir, or ""
  std::string resume = "auto";  // auto, never, or a path
  std::string config_hash;
  std::optional<checkpoint::SnapshotConfig> snapshot =
      {};                                   // where an unfinished run may have left more than its checkpoints
  std::vector<std::string> launchers = {};  // World::launchers(): that start a failed job again; empty: none does
  std::chrono::milliseconds patience = {};  // for a forerunner of this job that hasn't quite ended
};

struct RunDirectory {
  std::filesystem::path path;
  std::optional<std::filesystem::path> resume_from;  // a complete step directory
  std::vector<tracking::Notice> notices;             // why it resumes, or why not, and what it passes over
  DirectoryLock lock;
  std::optional<LaunchRecord> job = {};  // that its launcher started again
};

/// Chooses the directory of a run, and the checkpoint from which it goes on. A job that its launcher started again goes
/// on in its directory. It takes the newest complete checkpoint, or the one that the user named if the job has written
/// none. `auto` takes --run-dir's newest complete checkpoint. Without --run-dir, `auto` takes the newest unfinished run
/// of the same name and config that no process runs. `never` starts anew; it is an Error if --run-dir holds
/// checkpoints. A path is resumed, in place if it lies in a run directory and there is no --run-dir.
RunDirectory choose_run_directory(const RunDirectoryRequest& request);

/// Whether the run there came to its end, by its summary.json.
bool is_finished(const std::filesystem::path& directory);

/// What choose_run_directory recognises later: the config's hash, beside the resolved config.
void describe_run_directory(const std::filesystem::path& directory, const std::string& resolved_yaml,
                            const std::string& config_hash);
/// Whether the files that describe_run_directory() writes are there.
bool is_described(const std::filesystem::path& directory);

}  // namespace trainctl::train
