// What tells the contents of large files apart without reading them whole, so that a start costs no pass over the data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace trainctl::dataset {

/// A hash of each file of a set, without a read of the whole file. It has the file's size, and the checksum of blocks
/// of 4 KiB that are spread evenly from the first to the last byte. It also has the checksum that an index.json beside
/// the file states (of `trainctl data shard`). Files of up to kWholeBytes count whole. The hash doesn't show bytes
/// changed in place between the blocks if the file's size and index stay the same. `trainctl data verify` reads all
/// bytes.
class SampledHash {
 public:
  /// So many blocks of each of a set's files that all of them cost about as much as opening it; two at least.
  explicit SampledHash(std::span<const std::filesystem::path> files);
  /// Returns the hash of `content`, with the checksum that the index.json beside `file` states. It doesn't depend on
  /// the file's place or time of writing. Any thread may call it.
  std::string of(const std::filesystem::path& file, std::span<const std::byte> content) const;

  static constexpr std::size_t kWholeBytes = 256 << 10;

 private:
  std::size_t blocks_;                                                         // of each file
  std::map<std::filesystem::path, std::map<std::string, std::string>> noted_;  // checksums by directory and name
};

}  // namespace trainctl::dataset
