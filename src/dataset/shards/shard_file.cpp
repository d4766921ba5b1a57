#include "dataset/shards/shard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl::dataset {
ShardFile::ShardFile(std::filesystem::path path, KeepOpen keep_open) : path_(std::move(path)) {
  core::RegularFile file(path_);
  size_ = file.size();
  if (keep_open == KeepOpen::yes) descriptor_ = file.release();
}

ShardFile::ShardFile(ShardFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

ShardFile& ShardFile::operator=(ShardFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

ShardFile::~ShardFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ShardFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  const int descriptor = descriptor_ >= 0 ? descriptor_ : core::RegularFile(path_).release();
  ssize_t got = 1;
  while (!to.empty() && got > 0) {
    got = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0) {
      to = to.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
  }
  core::Error problem = core::system_error("read", path_.string());
  if (descriptor_ < 0) ::close(descriptor);
  if (got < 0) throw problem;
  if (!to.empty())
    throw core::Error(path_.string() + " ends at byte " + core::format_count(static_cast<long long>(offset)) +
                      ", where " + core::format_count(static_cast<long long>(to.size())) + " more should follow")
        .hint("the file has become shorter since it was opened");
}

void ShardFile::will_need(std::uint64_t offset, std::uint64_t bytes) const {
  if (descriptor_ >= 0)
    ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace trainctl::dataset
