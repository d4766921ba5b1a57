// Large files by several threads: written in chunks with a checksum for each, read in ranges that are checked chunk by
// chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"

namespace trainctl::checkpoint {

/// What a file must be like.
struct FileSums {
  std::uint64_t size = 0;
  std::uint64_t chunk = 0;        // bytes; the last one may be shorter
  std::vector<std::string> sums;  // XXH3 of each chunk
};

/// How many chunks of `chunk` bytes, not 0, a file of `size` bytes has.
std::size_t num_chunks(std::uint64_t size, std::uint64_t chunk);

inline constexpr std::uint64_t kChunk = std::uint64_t{16} << 20;

/// Writes the stretches one after another into a new file. With Durability::disk it is on the disk at the return, past
/// the page cache where the file system can do that. Errors name the path and the byte.
FileSums write_chunked(const std::filesystem::path& path, const std::vector<std::span<const std::byte>>& stretches,
                       core::Durability durability);

/// A part of a file, and where in memory it goes.
struct FileRange {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::byte* into = nullptr;
};
struct FileRanges {
  std::filesystem::path path;
  FileSums sums;
  std::vector<FileRange> ranges;
};

/// Reads each range, and checks all chunks that one touches. A file that isn't as its sums say is an Error.
void read_chunked(const std::vector<FileRanges>& files);

/// Reads and checks all chunks.
void verify_chunked(const std::vector<FileRanges>& files);

}  // namespace trainctl::checkpoint
