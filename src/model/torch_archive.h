// Zip archives as LibTorch writes them: files of torch.save, TorchScript's, and packages of AOTInductor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace trainctl::model {

/// Where a record lies in the file.
struct FileRange {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  bool is_stored = true;  // as it is: neither compressed nor encrypted
};

/// Returns the records by their names. Throws Error for damage, a record that overruns the file, or a name that leads
/// out of the archive. A record that is much larger than what is stored of it is one, too.
std::map<std::string, FileRange> list_archive(const std::filesystem::path& path);

/// Reads every record as well, and compares its CRC-32, since LibTorch's reader compares no checksums.
void check_archive(const std::filesystem::path& path);

}  // namespace trainctl::model
