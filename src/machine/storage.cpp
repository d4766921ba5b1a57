#include "machine/storage.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "core/text.h"

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlockBytes = 4 << 20;
constexpr std::int64_t kMaxBytes = 64 << 20;
constexpr std::chrono::milliseconds kMaxTime{500};

/// Opens a file that no directory lists; -1 and errno if that fails.
int open_nameless_file(const fs::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
  // The file system does not support nameless files.
  std::string name = (directory / ".trainctl_doctor_XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

/// Returns bytes that a compressing file system cannot shrink.
std::vector<std::uint64_t> random_block() {
  std::vector<std::uint64_t> block(kBlockBytes / sizeof(std::uint64_t));
  std::mt19937_64 generator;
  for (std::uint64_t& word : block) word = generator();
  return block;
}

bool write_all(int descriptor, const std::vector<std::uint64_t>& block) {
  const char* data = reinterpret_cast<const char*>(block.data());
  for (std::size_t done = 0; done < kBlockBytes;) {
    const ssize_t count = ::write(descriptor, data + done, kBlockBytes - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return ::fdatasync(descriptor) == 0;
}

}  // namespace

Space space_of(const fs::path& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return {.problem = std::strerror(errno)};
  const auto unit = static_cast<std::int64_t>(info.f_frsize);
  return {.total_bytes = static_cast<std::int64_t>(info.f_blocks) * unit,
          .free_bytes = static_cast<std::int64_t>(info.f_bavail) * unit,
          .problem = ""};
}

fs::path nearest_directory(const fs::path& path) {
  std::error_code ignored;
  fs::path directory = fs::absolute(path, ignored).lexically_normal();
  while (!fs::is_directory(directory, ignored) && directory.has_relative_path()) directory = directory.parent_path();
  return directory;
}

WriteRate measure_write_rate(const fs::path& directory) {
  const int descriptor = open_nameless_file(directory);
  if (descriptor < 0) return {.problem = std::strerror(errno)};
  const std::vector<std::uint64_t> block = random_block();
  WriteRate rate;
  std::int64_t written = 0;
  const auto begin = Clock::now();
  auto end = begin;
  while (written < kMaxBytes && end - begin < kMaxTime) {
    if (!write_all(descriptor, block)) {
      rate.problem = std::string(std::strerror(errno)) + " after " + core::format_bytes(static_cast<double>(written)) +
                     " were written";
      break;
    }
    written += static_cast<std::int64_t>(kBlockBytes);
    end = Clock::now();
  }
  ::close(descriptor);
  const double seconds = std::chrono::duration<double>(end - begin).count();
  if (seconds > 0) rate.bytes_per_s = static_cast<double>(written) / seconds;
  return rate;
}

}  // namespace trainctl::machine
