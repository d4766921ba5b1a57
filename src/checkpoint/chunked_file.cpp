#include "checkpoint/chunked_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAlignment = 4096;  // alignment of direct I/O
constexpr std::size_t kThreads = 4;       // independent of the number of cores, since they wait for the disk

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return value_; }
  int close() {
    const int value = std::exchange(value_, -1);
    return value < 0 ? 0 : ::close(value);
  }

 private:
  int value_;
};

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};
using Buffer = std::unique_ptr<std::byte[], Free>;

Buffer new_buffer(std::size_t size) {
  const std::size_t whole = (size + kAlignment - 1) / kAlignment * kAlignment;
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(kAlignment, std::max(whole, kAlignment))));
  if (buffer == nullptr)
    throw core::Error("cannot allocate " + core::format_bytes(static_cast<double>(whole)) +
                      " for a part of a checkpoint's file");
  return buffer;
}

std::string at_byte(const fs::path& path, std::uint64_t byte) {
  return path.string() + " at byte " + std::to_string(byte);
}

/// Calls `work(i)` for each i below `count` on a few threads, including this one, until the first failure. If a thread
/// cannot start or allocate its buffer, the others do its share, so that the checkpoint succeeds.
void in_parallel(std::size_t count, const std::function<void(std::size_t, Buffer&)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&](Buffer buffer) {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i, buffer);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < std::min(count, kThreads); ++i)
        others.emplace_back(run, new_buffer(static_cast<std::size_t>(kChunk)));
    } catch (const std::exception&) {
    }
    run({});
  }
  if (failure) std::rethrow_exception(failure);
}

/// Several byte ranges, seen as one sequence of bytes.
class Stretches {
 public:
  explicit Stretches(const std::vector<std::span<const std::byte>>& stretches) : stretches_(stretches) {
    for (const auto& stretch : stretches) {
      begins_.push_back(size_);
      size_ += stretch.size();
    }
  }
  std::uint64_t size() const { return size_; }

  void copy(std::uint64_t begin, std::span<std::byte> into) const {
    auto at = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin()) - 1;
    for (; !into.empty(); ++at) {
      const auto rest = stretches_[at].subspan(static_cast<std::size_t>(begin - begins_[at]));
      const std::size_t count = std::min(rest.size(), into.size());
      std::memcpy(into.data(), rest.data(), count);
      into = into.subspan(count);
      begin += count;
    }
  }

 private:
  const std::vector<std::span<const std::byte>>& stretches_;
  std::vector<std::uint64_t> begins_;
  std::uint64_t size_ = 0;
};

/// Creates a file with direct I/O, if the file system supports it. The page cache would cost a training step as much as
/// the write itself, and evict data that is read sooner.
int open_new(const fs::path& path, core::Durability durability, std::uint64_t size) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  constexpr std::uint64_t kSmall = 1 << 20;
  int file = -1;
  if (durability == core::Durability::disk && size > kSmall) file = ::open(path.c_str(), kFlags | O_DIRECT, 0644);
  if (file < 0) file = ::open(path.c_str(), kFlags, 0644);
  if (file < 0) throw core::system_error("create", path.string());
  return file;
}

/// Allocates the disk space in one piece. On file systems without support, the file grows as it is written.
void make_room(int file, std::uint64_t size, const fs::path& path) {
  if (size <= kChunk || ::fallocate(file, 0, 0, static_cast<off_t>(size)) == 0) return;
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) throw core::system_error("make room for", path.string());
}

bool is_direct(int file) {
  return (::fcntl(file, F_GETFL) & O_DIRECT) != 0;
}

void write_at(int file, std::span<const std::byte> bytes, std::uint64_t offset, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EINVAL && is_direct(file)) {
      // The file system needs a larger alignment, or a short write left an unaligned rest.
      if (::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_DIRECT) == 0) continue;
    }
    if (put < 0) throw core::system_error("write", at_byte(path, offset));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void read_at(int file, std::span<std::byte> into, std::uint64_t offset, const fs::path& path) {
  while (!into.empty()) {
    const ssize_t got = ::pread(file, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw core::system_error("read", at_byte(path, offset));
    if (got == 0) throw core::Error(path.string() + " is damaged: it ends at byte " + std::to_string(offset));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

enum class Chunks { touched, all };

/// A chunk to read: its file, and the requested ranges that overlap it.
struct Task {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::string sum;
  std::vector<FileRange> ranges;  // clipped to the chunk
};

/// Returns the chunks in the order of their positions.
std::vector<Task> tasks_of(const std::vector<FileRanges>& files, Chunks wanted) {
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FileSums& sums = files[i].sums;
    const std::size_t count = num_chunks(sums.size, sums.chunk);
    core::ensure(sums.sums.size() == count, "a chunk has a sum");
    std::vector<std::vector<FileRange>> by_chunk(count);
    for (const FileRange& range : files[i].ranges)
      for (std::uint64_t at = range.begin; at < range.begin + range.size;) {
        const std::uint64_t chunk = at / sums.chunk;
        const std::uint64_t end = std::min(range.begin + range.size, (chunk + 1) * sums.chunk);
        by_chunk[static_cast<std::size_t>(chunk)].push_back(
            {.begin = at, .size = end - at, .into = range.into + (at - range.begin)});
        at = end;
      }
    for (std::size_t chunk = 0; chunk < count; ++chunk) {
      if (by_chunk[chunk].empty() && wanted == Chunks::touched) continue;
      const std::uint64_t begin = chunk * sums.chunk;
      tasks.push_back({.file = i,
                       .begin = begin,
                       .size = std::min(sums.chunk, sums.size - begin),
                       .sum = sums.sums[chunk],
                       .ranges = std::move(by_chunk[chunk])});
    }
  }
  return tasks;
}

void check_sum(std::span<const std::byte> bytes, const Task& task, const fs::path& path) {
  if (const std::string sum = core::checksum(bytes); sum != task.sum)
    throw core::Error(path.string() + " is damaged: the checksum of bytes " + std::to_string(task.begin) + " to " +
                      std::to_string(task.begin + task.size) + " is " + sum + " instead of " + task.sum);
}

/// A file to read. Bytes outside the page cache are read with direct I/O: copying through the cache doubles the cost,
/// and a checkpoint is read once.
class Source {
 public:
  Source(const fs::path& path, std::uint64_t size)
      : path_(path), cached_(path), direct_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)) {
    if (cached_.size() != size)
      throw core::Error(path.string() + " is damaged: it has " + std::to_string(cached_.size()) + " bytes instead of " +
                        std::to_string(size));
    ::posix_fadvise(cached_.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  const fs::path& path() const { return path_; }

  /// Starts reading ahead if the file system has no direct I/O.
  void announce(std::uint64_t begin, std::uint64_t size) const {
    if (direct_.get() < 0)
      ::posix_fadvise(cached_.descriptor(), static_cast<off_t>(begin), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
  }
  bool is_on_disk_only(std::uint64_t begin) const {
    if (direct_.get() < 0) return false;
    std::byte one{};
    const iovec into{&one, 1};
    return ::preadv2(cached_.descriptor(), &into, 1, static_cast<off_t>(begin), RWF_NOWAIT) < 0 && errno == EAGAIN;
  }
  void read(std::span<std::byte> into, std::uint64_t offset) const {
    read_at(cached_.descriptor(), into, offset, path_);
  }
  /// Reads into `buffer`, whose size is a multiple of the alignment and at least `count`.
  void read_direct(std::span<std::byte> buffer, std::size_t count, std::uint64_t offset) const {
    std::size_t got = 0;
    if (offset % kAlignment == 0) {
      const std::size_t padded = (count + kAlignment - 1) / kAlignment * kAlignment;
      const ssize_t read = ::pread(direct_.get(), buffer.data(), padded, static_cast<off_t>(offset));
      got = std::min(count, static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
    }
    // Short reads, and reads refused for their alignment, go through the cache, which also reports their errors.
    if (got < count) read(buffer.subspan(got, count - got), offset + got);
  }

 private:
  fs::path path_;
  core::RegularFile cached_;
  Descriptor direct_;
};

void read_chunk(const Task& task, const Source& source, Buffer& buffer) {
  const bool is_direct = source.is_on_disk_only(task.begin);
  if (!is_direct && task.ranges.size() == 1 && task.ranges[0].size == task.size) {
    const std::span<std::byte> into(task.ranges[0].into, static_cast<std::size_t>(task.size));
    source.read(into, task.begin);
    return check_sum(into, task, source.path());
  }
  // A version-1 file is one chunk of any size, so it is read in pieces.
  const std::size_t piece = static_cast<std::size_t>(std::min(task.size, kChunk));
  if (!buffer) buffer = new_buffer(static_cast<std::size_t>(kChunk));
  core::Checksum sum;
  for (std::uint64_t at = 0; at < task.size; at += piece) {
    const std::span<std::byte> bytes(buffer.get(),
                                     static_cast<std::size_t>(std::min<std::uint64_t>(piece, task.size - at)));
    const std::uint64_t begin = task.begin + at;
    if (is_direct)
      source.read_direct({buffer.get(), static_cast<std::size_t>(kChunk)}, bytes.size(), begin);
    else
      source.read(bytes, begin);
    if (bytes.size() == task.size)
      check_sum(bytes, task, source.path());
    else
      sum.update(bytes);
    for (const FileRange& range : task.ranges) {
      const std::uint64_t first = std::max(range.begin, begin);
      const std::uint64_t last = std::min(range.begin + range.size, begin + bytes.size());
      if (first < last) std::memcpy(range.into + (first - range.begin), bytes.data() + (first - begin), last - first);
    }
  }
  if (task.size > piece && sum.digest() != task.sum)
    throw core::Error(source.path().string() + " is damaged: its checksum is " + sum.digest() + " instead of " +
                      task.sum);
}

void read_chunks(const std::vector<FileRanges>& files, const std::vector<Task>& tasks) {
  std::vector<std::unique_ptr<Source>> sources;
  for (const FileRanges& file : files) sources.push_back(std::make_unique<Source>(file.path, file.sums.size));
  in_parallel(tasks.size(), [&](std::size_t i, Buffer& buffer) {
    if (i + kThreads < tasks.size()) {
      const Task& coming = tasks[i + kThreads];
      sources[coming.file]->announce(coming.begin, coming.size);
    }
    read_chunk(tasks[i], *sources[tasks[i].file], buffer);
  });
}

}  // namespace

std::size_t num_chunks(std::uint64_t size, std::uint64_t chunk) {
  return static_cast<std::size_t>(size / chunk + (size % chunk != 0 ? 1 : 0));
}

FileSums write_chunked(const fs::path& path, const std::vector<std::span<const std::byte>>& stretches,
                       core::Durability durability) {
  const Stretches bytes(stretches);
  FileSums file{.size = bytes.size(), .chunk = kChunk, .sums = {}};
  file.sums.resize(num_chunks(file.size, kChunk));
  Descriptor descriptor(open_new(path, durability, file.size));
  const bool pads = is_direct(descriptor.get());
  make_room(descriptor.get(), file.size, path);
  in_parallel(file.sums.size(), [&](std::size_t i, Buffer& buffer) {
    const std::uint64_t begin = i * kChunk;
    const auto size = static_cast<std::size_t>(std::min(kChunk, file.size - begin));
    if (!buffer) buffer = new_buffer(static_cast<std::size_t>(kChunk));
    const std::span<std::byte> chunk(buffer.get(), size);
    bytes.copy(begin, chunk);
    file.sums[i] = core::checksum(chunk);
    const std::size_t padded = pads ? (size + kAlignment - 1) / kAlignment * kAlignment : size;
    std::memset(buffer.get() + size, 0, padded - size);
    write_at(descriptor.get(), {buffer.get(), padded}, begin, path);
  });
  if (::ftruncate(descriptor.get(), static_cast<off_t>(file.size)) != 0) throw core::system_error("cut", path.string());
  if (durability == core::Durability::disk && ::fsync(descriptor.get()) != 0)
    throw core::system_error("sync", path.string());
  if (descriptor.close() != 0) throw core::system_error("close", path.string());
  return file;
}

void read_chunked(const std::vector<FileRanges>& files) {
  read_chunks(files, tasks_of(files, Chunks::touched));
}

void verify_chunked(const std::vector<FileRanges>& files) {
  read_chunks(files, tasks_of(files, Chunks::all));
}

}  // namespace trainctl::checkpoint
