// Files that are either whole or absent: reading in one piece, writing beside and renaming, checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace trainctl::core {

/// A regular file, open for reading. A directory, FIFO, socket or device is refused at once: opening never waits for
/// who would write. Errors name the path.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path);
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  /// In bytes, when it was opened.
  std::uint64_t size() const { return size_; }
  /// Who takes the descriptor closes it.
  int release();

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// The file's bytes. Errors name the path. Files over `max_bytes`, or the machine's memory, are refused before they are
/// read.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = ~std::uint64_t{0});

/// Whether written bytes must survive a power cut, or only a crash of this process.
enum class Durability { process, disk };

/// Writes `path` beside itself and renames it into place, so that readers see the old bytes or the new, never a part.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           Durability durability = Durability::process);

/// Returns digits that no other process or thread gets, on any host: for a name in a shared directory. Process ids are
/// each host's own, and those of containers are often equal.
std::string unique_digits();

/// Makes renames and new entries in a directory durable.
void sync_directory(const std::filesystem::path& directory);

/// Sends on its way what was printed to standard output so far. What can't be written, then or earlier, is an Error: a
/// result that is lost must not look like one that is there.
void flush_standard_output();

/// Makes the directory for this user alone, with its parents, if it is missing. Throws an Error if the path is a link,
/// no directory, another user's directory, or a directory that other users may write to. In a place that all users
/// share, another user may have made the path first, or may have left links in the directory. The directory has mode
/// 0700 when the call returns.
void make_private_directory(const std::filesystem::path& path);
/// Whether it is there; an Error where it isn't this user's own, as above.
bool is_private_directory(const std::filesystem::path& path);

/// A file being written in order. Fails on the first short write (full disk) with the path and the offset.
class FileWriter {
 public:
  enum class IfThere { truncate, refuse };
  explicit FileWriter(std::filesystem::path path, IfThere if_there = IfThere::truncate);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  std::uint64_t offset() const { return offset_; }
  /// Flushes to the disk and closes; errors of either throw.
  void close(Durability durability);

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t offset_ = 0;
};

/// The checksum() of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void update(std::span<const std::byte> bytes);
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3 (64 bits) of bytes, as 16 hex digits. For integrity, not for security.
std::string checksum(std::span<const std::byte> bytes);
std::string checksum(std::string_view bytes);
/// Returns the checksum() of a file's content, read in pieces.
std::string checksum_file(const std::filesystem::path& path);

/// Whether the path still leads to the file that is open: false once it, or a directory above it, was removed or moved.
bool names_open_file(const std::filesystem::path& path, int descriptor);

}  // namespace trainctl::core
