#include "dataset/image/cache/shared_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kOwnBytes = 4096;  // before data(): how many have come

std::string prefix() {
  return "trainctl-" + std::to_string(::getuid()) + "-";
}

bool lock(int descriptor, int how) {
  while (::flock(descriptor, how) != 0) {
    if (errno == EINTR) continue;
    return false;
  }
  return true;
}

bool is_own(int descriptor) {
  struct stat info {};
  return ::fstat(descriptor, &info) == 0 && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
}

/// Removes the memory of runs of which every process was killed.
void remove_memory_of_the_dead(const std::string& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (!entry.path().filename().string().starts_with(prefix())) continue;
    const int descriptor = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) continue;
    if (lock(descriptor, LOCK_EX | LOCK_NB) && core::names_open_file(entry.path(), descriptor))
      ::unlink(entry.path().c_str());
    ::close(descriptor);
  }
}

core::Error cannot_share(const std::string& path) {
  core::Error error = core::system_error("share memory in", path);
  error.hint("set dataset.image_cache.shared: false");
  return error;
}

}  // namespace

SharedMemory::SharedMemory(const Options& options)
    : path_(options.directory + "/" + prefix() + options.name), size_(options.bytes) {
  remove_memory_of_the_dead(options.directory);
  open();
  map();
  auto& have_come = *reinterpret_cast<std::atomic<std::uint64_t>*>(mapped_);
  if (have_come.fetch_add(1) + 1 == options.participants) remove_name();
}

void SharedMemory::open() {
  // Until the lock is held, whoever leaves may remove the name: then that file is not the one to use.
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor_ < 0) throw cannot_share(path_);
    if (!is_own(descriptor_)) {
      ::close(descriptor_);
      throw core::Error("cannot share memory in " + path_ + ": it belongs to another user")
          .hint("have it removed, or set dataset.image_cache.shared: false");
    }
    if (lock(descriptor_, LOCK_SH) && is_named()) return;
    ::close(descriptor_);
  }
}

void SharedMemory::map() {
  const std::size_t bytes = kOwnBytes + size_;
  void* mapped = MAP_FAILED;
  if (::ftruncate(descriptor_, static_cast<::off_t>(bytes)) == 0 && ::fallocate(descriptor_, 0, 0, kOwnBytes) == 0)
    mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    core::Error error = cannot_share(path_);
    if (lock(descriptor_, LOCK_EX | LOCK_NB)) remove_name();
    ::close(descriptor_);
    throw error;
  }
  mapped_ = static_cast<std::byte*>(mapped);
  data_ = mapped_ + kOwnBytes;
}

SharedMemory::~SharedMemory() {
  ::munmap(mapped_, kOwnBytes + size_);
  if (lock(descriptor_, LOCK_EX | LOCK_NB)) remove_name();
  ::close(descriptor_);
}

bool SharedMemory::reserve(std::size_t offset, std::size_t bytes) const {
  int failed = 0;
  do {
    failed = ::fallocate(descriptor_, 0, static_cast<::off_t>(kOwnBytes + offset), static_cast<::off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  return failed == 0;
}

bool SharedMemory::is_named() const {
  return core::names_open_file(path_, descriptor_);
}

void SharedMemory::remove_name() const {
  if (is_named()) ::unlink(path_.c_str());
}

std::size_t free_bytes(const std::string& directory) {
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0) return 0;
  return static_cast<std::size_t>(status.f_bavail) * status.f_frsize;
}

}  // namespace trainctl::dataset
