#include "dataset/image/folder/folder_change_detector.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "core/file.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostWatched = 65'536;
constexpr std::int64_t kMostLookedAt = 1'024;
constexpr std::int64_t kMostRead = 256;
constexpr std::streamoff kBytesAtEachEnd = 32 << 10;

WatchedFile look_at(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {.size = status.st_size,
          .changed_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

/// Calls `use` for `count` of the numbers below `all`, spread evenly.
template <class Use>
void for_each_of(std::int64_t count, std::int64_t all, const Use& use) {
  for (std::int64_t i = 0; i < count; ++i) use(i * all / count);
}

/// Returns the first and last bytes, or all of a small file. A named pipe gives none: the reader of the sample refuses
/// it.
std::string ends_of(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return "";
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream.tellg();
  std::string bytes;
  const auto add = [&](std::streamoff begin, std::streamoff count) {
    const std::size_t had = bytes.size();
    bytes.resize(had + static_cast<std::size_t>(count));
    stream.seekg(begin);
    stream.read(bytes.data() + had, count);
  };
  if (size < 0) return bytes;
  add(0, std::min(size, kBytesAtEachEnd));
  if (size > kBytesAtEachEnd)
    add(std::max(size - kBytesAtEachEnd, kBytesAtEachEnd), std::min(size - kBytesAtEachEnd, kBytesAtEachEnd));
  return bytes;
}

}  // namespace

FolderChangeDetector watch_files(std::int64_t num_files, const PathOfFile& path) {
  FolderChangeDetector watch;
  core::Checksum sum;
  for_each_of(std::min(num_files, kMostWatched), num_files, [&](std::int64_t file) {
    watch.files.push_back(look_at(path(file)));
    sum.update(std::as_bytes(std::span(&watch.files.back().size, 1)));
  });
  for_each_of(std::min(num_files, kMostRead), num_files, [&](std::int64_t file) {
    const std::string bytes = ends_of(path(file));
    sum.update(std::as_bytes(std::span(bytes)));
  });
  watch.content = sum.digest();
  return watch;
}

bool are_unchanged(std::span<const WatchedFile> files, std::int64_t num_files, const PathOfFile& path) {
  const auto count = static_cast<std::int64_t>(files.size());
  bool same = true;
  for_each_of(std::min(count, kMostLookedAt), count, [&](std::int64_t i) {
    if (!same) return;
    const WatchedFile& then = files[static_cast<std::size_t>(i)];
    const WatchedFile now = look_at(path(i * num_files / count));
    same = now.size == then.size && now.changed_ns == then.changed_ns;
  });
  return same;
}

}  // namespace trainctl::dataset
