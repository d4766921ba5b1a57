#include "tracking/trackers/delivered_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "tracking/append_file.h"
#include "tracking/trackers/run_tracker.h"

namespace trainctl::tracking {

DeliveredFile::~DeliveredFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string own_name(const nlohmann::ordered_json& state, const char* key, std::string_view prefix) {
  std::string name = state.at(key).get<std::string>();
  if (!name.starts_with(prefix) || name.find('/') != std::string::npos) throw DamagedState();
  return name;
}

bool DeliveredFile::go_on(std::int64_t size) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor_ < 0) return false;
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || status.st_size < size || ::ftruncate(descriptor_, size) != 0) {
    ::close(std::exchange(descriptor_, -1));
    return false;
  }
  written_ = size;
  return true;
}

void DeliveredFile::begin() {
  std::filesystem::create_directories(path_.parent_path());
  beside_ = path_.parent_path() / ".delivery.tmp";  // TensorBoard reads each file with "tfevents" in its name
  descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw core::system_error("open", beside_.string());
}

void DeliveredFile::commit() {
  if (!write_all(descriptor_, appended_))
    throw core::system_error("write", path_.string() + " at byte " + std::to_string(written_));
  written_ += static_cast<std::int64_t>(appended_.size());
  appended_.clear();
  if (beside_.empty()) return;
  std::filesystem::rename(beside_, path_);
  beside_.clear();
}

}  // namespace trainctl::tracking
