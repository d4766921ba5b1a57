// Records of the zip archives that torch.save writes: uncompressed, so that they can be mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace trainctl::pretrained {

/// Bytes of a file.
struct FileRange {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  bool is_stored = true;  // as it is: neither compressed nor encrypted
};

/// Returns where the archive's records lie. Throws Error for a damaged archive, and for a record that overruns
/// the file, which has `file_size` bytes.
std::map<std::string, FileRange> list_archive(const std::filesystem::path& path, std::uint64_t file_size);

}  // namespace trainctl::pretrained
