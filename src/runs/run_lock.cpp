#include "runs/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace trainctl::runs {

RunLock::RunLock(const std::filesystem::path& run_directory)
    : descriptor_(::open((run_directory / ".lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  if (descriptor_ < 0) {
    is_elsewhere_ = errno != ENOENT;  // a lock that can't be asked for may be held
    return;
  }
  is_elsewhere_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0;
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool is_locked(const std::filesystem::path& run_directory) {
  return RunLock(run_directory).is_elsewhere();
}

}  // namespace trainctl::runs
