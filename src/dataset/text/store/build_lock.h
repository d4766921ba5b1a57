// One process at a time prepares a store; what killed ones left behind is removed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace trainctl::dataset {

/// Held while <cache_dir>/<name> is being made. Another holder, of any process or thread, is waited for.
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

/// Where the holder of <cache_dir>/<name>'s lock writes what it makes: a directory of this process, to be renamed.
std::filesystem::path unfinished_path(const std::filesystem::path& cache_dir, const std::string& name);

/// Removes the unfinished directories of processes that are gone: those whose lock nobody holds.
void remove_abandoned(const std::filesystem::path& cache_dir);

}  // namespace trainctl::dataset
