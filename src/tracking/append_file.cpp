#include "tracking/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::tracking {

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

namespace {

constexpr std::size_t kMaxKeptBack = 16 << 20;  // with large records

int flags_of(IfExists if_exists) {
  switch (if_exists) {
    case IfExists::append:
      return 0;
    case IfExists::truncate:
      return O_TRUNC;
    case IfExists::refuse:
      return O_EXCL;
  }
  return 0;
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, IfExists if_exists)
    : path_(std::move(path)),
      // Without O_NONBLOCK, a named pipe would be waited for.
      descriptor_(
          ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | flags_of(if_exists), 0644)),
      size_(0) {
  if (descriptor_ < 0) throw core::system_error("open", path_.string());
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  if (end > 0) size_ = end;  // -1 if the file cannot seek, such as /dev/full
}

AppendFile::~AppendFile() {
  ::close(descriptor_);
}

/// Recreates the file if it or its directory was removed or moved.
void AppendFile::reopen_removed() {
  if (core::names_open_file(path_, descriptor_)) return;
  std::error_code ignored;
  std::filesystem::create_directories(path_.parent_path(), ignored);
  const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) throw core::system_error("open", path_.string());
  ::close(descriptor_);
  descriptor_ = descriptor;
  size_ = std::max<off_t>(::lseek(descriptor_, 0, SEEK_END), 0);
}

void AppendFile::append(std::string_view record) {
  kept_back_.append(record);
  write_kept_back();
  report_left_out();
}

void AppendFile::append_large(std::string_view record, std::int64_t step) {
  const std::size_t kept = kept_back_.size();
  kept_back_.append(record);
  try {
    write_kept_back();
  } catch (const core::Error&) {
    if (kept_back_.size() > kMaxKeptBack) {
      kept_back_.resize(kept);
      if (num_left_out_++ == 0) first_left_out_ = step;
      last_left_out_ = step;
    }
    throw;
  }
  report_left_out();
}

void AppendFile::finish() {
  try {
    if (!kept_back_.empty()) write_kept_back();
  } catch (const core::Error& error) {
    throw LostRecords("the last records of " + path_.string() + " are lost: " + error.what());
  }
  report_left_out();
}

void AppendFile::report_left_out() {
  if (num_left_out_ == 0) return;
  throw LostRecords(path_.string() + " lacks " + std::to_string(std::exchange(num_left_out_, 0)) +
                    " records with histograms, of steps " + std::to_string(first_left_out_) + " to " +
                    std::to_string(last_left_out_) + ": they could be neither written nor kept");
}

void AppendFile::write_kept_back() {
  reopen_removed();
  if (write_all(descriptor_, kept_back_)) {
    size_ += static_cast<std::int64_t>(kept_back_.size());
    kept_back_.clear();
    return;
  }
  const core::Error error = core::system_error("write", path_.string() + " at byte " + std::to_string(size_));
  // Removes a partial write. If even that fails, readers drop the torn last line.
  [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, size_);
  throw error;
}

}  // namespace trainctl::tracking
