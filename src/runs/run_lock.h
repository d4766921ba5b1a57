// Whether a process trains in a run directory: it holds a lock on the file .lock there.
#pragma once

#include <filesystem>

namespace trainctl::runs {

/// Whether a process holds the lock. Changes nothing in the directory.
bool is_locked(const std::filesystem::path& run_directory);

/// Holds the lock of a directory while it is changed, so that no process begins to train there. A directory without a
/// lock file has never been trained in.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& run_directory);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();
  /// Whether another process holds it.
  bool is_elsewhere() const { return is_elsewhere_; }

 private:
  int descriptor_ = -1;
  bool is_elsewhere_ = false;
};

}  // namespace trainctl::runs
