#include "dataset/image/folder/image_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"
#include "core/file.h"
#include "dataset/image/codec/decode.h"

namespace trainctl::dataset {
namespace {

std::size_t read_whole(const std::string& path, std::vector<std::byte>& buffer) {
  const core::RegularFile file(path);
  const auto size = static_cast<std::size_t>(file.size());
  if (buffer.size() < size) buffer.resize(size);
  std::size_t have = 0;
  while (have < size) {
    const ::ssize_t got = ::read(file.descriptor(), buffer.data() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw core::system_error("read", path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

/// Returns whether this process may open another file: else no file is bad.
bool has_descriptors() {
  const int probe = ::dup(STDERR_FILENO);
  if (probe >= 0) ::close(probe);
  return probe >= 0 || errno == EBADF;
}

}  // namespace

std::size_t read_image_file(const std::string& path, std::vector<std::byte>& buffer) {
  try {
    return read_whole(path, buffer);
  } catch (const core::Error& problem) {
    if (!has_descriptors()) throw core::Error(problem.what()).hint("raise the limit of open files: ulimit -n");
    BadSample error(problem.what());
    error.hint("dataset.on_bad_sample: skip or replace goes on without such files");
    throw error;
  }
}

void expect_image_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_WILLNEED);
  ::close(descriptor);
}

}  // namespace trainctl::dataset
