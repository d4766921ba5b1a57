// Checksums of files' content, remembered so that unchanged files aren't read again: <cache_dir>/sources/ has a small
// file for each, with the size, times and inode that the checksum is of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainctl::dataset {

class SourceChecksums {
 public:
  explicit SourceChecksums(const std::filesystem::path& cache_dir) : directory_(cache_dir / "sources") {}
  /// Returns checksum_file(file), without a read of the file if it is unchanged.
  std::string of(const std::filesystem::path& file) const;

 private:
  std::filesystem::path directory_;
};

/// What tells whether a file was written since: size, modification and change time, inode.
struct FileState {
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  std::int64_t inode = 0;
  bool operator==(const FileState&) const = default;
};
FileState file_state(const std::filesystem::path& file);

}  // namespace trainctl::dataset
