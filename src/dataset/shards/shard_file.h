// A large file of which pieces are read, from any thread. Reading copies a piece; unlike a mapping it doesn't grow the
// process, tells disk time apart from work, and a file that shrinks meanwhile is an error instead of a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trainctl::dataset {

/// Whether the file stays open between reads: too many open files are refused by the system.
enum class KeepOpen { yes, no };

class ShardFile {
 public:
  ShardFile(std::filesystem::path path, KeepOpen keep_open);
  ShardFile(ShardFile&& other) noexcept;
  ShardFile& operator=(ShardFile&& other) noexcept;
  ~ShardFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Fills `to` from `offset` on; Errors name path and byte.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  /// Lets the system begin to read this; does nothing where the file isn't kept open.
  void will_need(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace trainctl::dataset
