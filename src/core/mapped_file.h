// A file's bytes as memory, read when they are touched. A file that another process makes shorter meanwhile, or a disk
// that fails, is an Error here and not a SIGBUS that ends the process: see check_mapped_files().
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace trainctl::core {

/// What may be done with the bytes. copy_on_write: written pages become this process's own; the file stays as it is.
enum class MapAccess { read_only, copy_on_write };

class MappedFile {
 public:
  MappedFile();
  /// Maps a regular file. Errors name the path.
  explicit MappedFile(const std::filesystem::path& path, MapAccess access = MapAccess::read_only);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Only with MapAccess::copy_on_write.
  std::span<std::byte> writable_bytes() const { return {data_, size_}; }

 private:
  struct Registered;
  std::unique_ptr<Registered> registered_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Throws an Error that names the file if part of a MappedFile of this process is gone. Bytes that were read from that
/// part are zeros. Call it after the reading, and before the bytes are used or kept; it costs one load. The Error for a
/// file that is no longer mapped is thrown once.
void check_mapped_files();

}  // namespace trainctl::core
