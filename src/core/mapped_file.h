// A file's bytes as memory, read when they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace trainctl {

class MappedFile {
 public:
  MappedFile() = default;
  /// Read-only. Errors name the path.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trainctl
