// One process at a time prepares a store; what killed ones left behind is removed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace trainctl::dataset {

/// The lock of a process or thread that makes `cache_dir/name`. The constructor waits for another holder.
class PreparationLock {
 public:
  /// `wait` is told once if there is another holder.
  PreparationLock(const std::filesystem::path& cache_dir, const std::string& name, const std::function<void()>& wait);
  PreparationLock(const PreparationLock&) = delete;
  PreparationLock& operator=(const PreparationLock&) = delete;
  ~PreparationLock();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;  // -1: the file system has no locks
};

/// Returns a new directory in which the holder of the lock of `cache_dir/name` writes, before the rename. Holders on a
/// file system without locks have one each.
std::filesystem::path unfinished_path(const std::filesystem::path& cache_dir, const std::string& name);

/// Removes the unfinished directories of processes that are gone: those whose lock nobody holds. Directories with
/// another name, or with a file that no store has, stay.
void remove_abandoned(const std::filesystem::path& cache_dir);

}  // namespace trainctl::dataset
