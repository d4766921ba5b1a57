// What tells the contents of large files apart without reading them whole, so that a start costs no pass over the data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace trainctl::dataset {

/// Of each of a set's files: its size, the checksum of blocks of 4 KiB, spread evenly from its first to its last byte,
/// and what an index.json beside it (of `trainctl data shard`) says its checksum is. Files of up to kWholeBytes count
/// whole. What it can't see: bytes changed in place between the blocks, in a file whose size and index stay the same;
/// `trainctl data verify` reads them all.
class SampledHash {
 public:
  /// So many blocks of each of a set's files that all of them cost about as much as opening it; two at least.
  explicit SampledHash(std::span<const std::filesystem::path> files);
  /// The same for the same content, wherever it lies and whenever it was written. Any thread may ask.
  std::string of(const std::filesystem::path& file, std::span<const std::byte> content) const;

  static constexpr std::size_t kWholeBytes = 256 << 10;

 private:
  std::size_t blocks_;                                                         // of each file
  std::map<std::filesystem::path, std::map<std::string, std::string>> noted_;  // checksums by directory and name
};

}  // namespace trainctl::dataset
