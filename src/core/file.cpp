#include "core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/error.h"

namespace trainctl::core {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

int open_or_throw(const std::filesystem::path& path, int flags, std::string_view action) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) throw system_error(action, path.string());
  return descriptor;
}

std::size_t read_some(int descriptor, char* into, std::size_t size, const std::filesystem::path& path) {
  for (;;) {
    const ssize_t got = ::read(descriptor, into, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw system_error("read", path.string());
  }
}

/// Names the kind of file, such as "a directory".
std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe, not a file";
  if (S_ISSOCK(mode)) return "a socket, not a file";
  return "a device, not a file";
}

std::string hex(XXH64_hash_t hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, hash >>= 4) text[static_cast<std::size_t>(i)] = kDigits[hash & 15];
  return text;
}

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path)
    : descriptor_(open_or_throw(path, O_RDONLY | O_NONBLOCK, "open")) {
  struct stat info {};
  const bool is_known = ::fstat(descriptor_, &info) == 0;
  if (is_known && S_ISREG(info.st_mode)) {
    size_ = static_cast<std::uint64_t>(info.st_size);
    return;
  }
  Error error = is_known ? Error("cannot read " + path.string() + ": it is " + kind_of(info.st_mode))
                         : system_error("look at", path.string());
  ::close(descriptor_);
  throw error;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int RegularFile::release() {
  return std::exchange(descriptor_, -1);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const RegularFile file(path);
  // A file may be sparse, and larger than any disk: what the machine's memory can't hold isn't read until it is full.
  const auto memory =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  max_bytes = std::min(max_bytes, memory);
  if (file.size() > max_bytes)
    throw Error(path.string() + " has " + std::to_string(file.size()) + " bytes; at most " + std::to_string(max_bytes) +
                " are read");
  std::string bytes;
  std::vector<char> chunk(1 << 16);
  while (const std::size_t got = read_some(file.descriptor(), chunk.data(), chunk.size(), path)) {
    if (bytes.size() + got > max_bytes)
      throw Error(path.string() + " has over " + std::to_string(max_bytes) + " bytes");
    bytes.append(chunk.data(), got);
  }
  return bytes;
}

void sync_directory(const std::filesystem::path& directory) {
  const Descriptor handle(open_or_throw(directory, O_RDONLY | O_DIRECTORY, "open directory"));
  if (::fsync(handle.get()) != 0) throw system_error("sync directory", directory.string());
}

std::string unique_digits() {
  std::random_device random;
  return std::to_string(std::uint64_t{random()} << 32 | random());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes, Durability durability) {
  std::filesystem::path beside = path;
  beside += ".tmp";
  try {
    // In a shared directory, another user may have put a link or a file under this name.
    ::unlink(beside.c_str());
    FileWriter writer(beside, FileWriter::IfThere::refuse);
    writer.write(bytes);
    writer.close(durability);
    if (::rename(beside.c_str(), path.c_str()) != 0) throw system_error("rename into place", path.string());
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  if (durability == Durability::disk) sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

bool is_private_directory(const std::filesystem::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return false;
    throw system_error("look at", path.string());
  }
  const auto refuse = [&](const std::string& problem) {
    throw Error(path.string() + " " + problem).hint("have this file or directory removed, or choose another directory");
  };
  if (!S_ISDIR(info.st_mode)) refuse("is not a directory; expected a private directory of this user");
  if (info.st_uid != ::geteuid()) refuse("belongs to another user, who could read and change its files");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    refuse("may be written to by other users, who could have left links in it");
  return true;
}

void make_private_directory(const std::filesystem::path& path) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw system_error("create directory", path.string());
  if (!is_private_directory(path)) throw Error("cannot create directory " + path.string());
  if (::chmod(path.c_str(), 0700) != 0) throw system_error("close to other users", path.string());
}

void flush_standard_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const std::string reason = errno == 0 ? "part of it was lost" : std::strerror(errno);
  throw Error("cannot write to standard output: " + reason).hint("make room where it goes, and run the command again");
}

FileWriter::FileWriter(std::filesystem::path path, IfThere if_there)
    : path_(std::move(path)),
      descriptor_(open_or_throw(
          path_, O_WRONLY | O_CREAT | O_NONBLOCK | (if_there == IfThere::refuse ? O_EXCL | O_NOFOLLOW : O_TRUNC),
          "create")) {}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB per call.
    const ssize_t put = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    if (put < 0) {
      if (errno == EINTR) continue;
      throw system_error("write", path_.string() + " at byte " + std::to_string(offset_));
    }
    offset_ += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void FileWriter::close(Durability durability) {
  if (durability == Durability::disk && ::fsync(descriptor_) != 0) throw system_error("sync", path_.string());
  if (::close(std::exchange(descriptor_, -1)) != 0) throw system_error("close", path_.string());
}

std::string checksum(std::span<const std::byte> bytes) {
  return hex(XXH3_64bits(bytes.data(), bytes.size()));
}

std::string checksum(std::string_view bytes) {
  return checksum(std::as_bytes(std::span(bytes)));
}

struct Checksum::State {
  XXH3_state_t* hash = XXH3_createState();  // needs a larger alignment than new gives
  ~State() { XXH3_freeState(hash); }
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->hash);
}

Checksum::~Checksum() = default;

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->hash, bytes.data(), bytes.size());
}

std::string Checksum::digest() const {
  return hex(XXH3_64bits_digest(state_->hash));
}

std::string checksum_file(const std::filesystem::path& path) {
  const RegularFile file(path);
  Checksum sum;
  std::vector<char> chunk(1 << 20);
  while (const std::size_t got = read_some(file.descriptor(), chunk.data(), chunk.size(), path))
    sum.update(std::as_bytes(std::span(chunk).first(got)));
  return sum.digest();
}

bool names_open_file(const std::filesystem::path& path, int descriptor) {
  struct stat open {};
  if (::fstat(descriptor, &open) != 0) return true;
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return errno != ENOENT && errno != ENOTDIR;
  return found.st_dev == open.st_dev && found.st_ino == open.st_ino;
}

}  // namespace trainctl::core
