#include "dataset/text/store/build_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenTries = std::chrono::milliseconds(50);

fs::path lock_path(const fs::path& cache_dir, const std::string& name) {
  return cache_dir / ("." + name + ".lock");
}

int open_lock(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw core::system_error("write", path.string()).hint("set dataset.cache_dir to a directory that can be written");
  return descriptor;
}

enum class Locking { held, by_another, impossible };

Locking try_lock(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return Locking::held;
  return errno == EWOULDBLOCK || errno == EINTR ? Locking::by_another : Locking::impossible;
}

/// Returns the store's name in ".0123456789abcdef-1234", which is a checksum; none for other names.
std::optional<std::string> unfinished_name(const std::string& file) {
  constexpr std::size_t kDigits = 16;
  constexpr std::size_t kDash = 1 + kDigits;
  if (file.size() <= kDash + 1 || file.front() != '.' || file[kDash] != '-') return std::nullopt;
  if (file.find_first_not_of("0123456789abcdef", 1) != kDash) return std::nullopt;
  if (file.find_first_not_of("0123456789", kDash + 1) != std::string::npos) return std::nullopt;
  return file.substr(1, kDigits);
}

/// Returns whether a directory, no link to one, holds nothing but files that StoreWriter writes.
bool holds_store_files(const fs::directory_entry& directory) {
  constexpr std::array<std::string_view, 5> kExtensions = {".tokens", ".starts", ".int64", ".bytes", ".int32"};
  std::error_code unreadable;
  if (!fs::is_directory(directory.symlink_status(unreadable))) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory.path(), unreadable)) {
    const std::string name = entry.path().filename().string();
    const bool is_index = name == "index.json" || name == "index.json.tmp";
    const bool is_part = std::ranges::find(kExtensions, entry.path().extension().string()) != kExtensions.end();
    if (!fs::is_regular_file(entry.symlink_status(unreadable)) || !(is_index || is_part)) return false;
  }
  return !unreadable;
}

/// Removes an unfinished directory if no process holds its lock.
void remove_if_abandoned(const fs::path& directory, const fs::path& lock) {
  const int descriptor = open_lock(lock);
  if (try_lock(descriptor) == Locking::held && core::names_open_file(lock, descriptor)) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    ::unlink(lock.c_str());
  }
  ::close(descriptor);
}

}  // namespace

PreparationLock::PreparationLock(const fs::path& cache_dir, const std::string& name, const std::function<void()>& wait)
    : path_(lock_path(cache_dir, name)) {
  for (bool told = false;;) {
    const int descriptor = open_lock(path_);
    const Locking locking = try_lock(descriptor);
    if (locking == Locking::held && core::names_open_file(path_, descriptor)) {
      descriptor_ = descriptor;
      return;
    }
    ::close(descriptor);
    if (locking == Locking::impossible) return;
    if (locking == Locking::held) continue;
    if (!told && wait) wait();
    told = true;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

PreparationLock::~PreparationLock() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

fs::path unfinished_path(const fs::path& cache_dir, const std::string& name) {
  return cache_dir / ("." + name + "-" + core::unique_digits());
}

void remove_abandoned(const fs::path& cache_dir) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache_dir, unreadable)) {
    const std::optional<std::string> name = unfinished_name(entry.path().filename().string());
    if (name && holds_store_files(entry)) remove_if_abandoned(entry.path(), lock_path(cache_dir, *name));
  }
}

}  // namespace trainctl::dataset
