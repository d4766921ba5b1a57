// Whether images were changed in place, which neither their names nor their folders' times show. Looking at every file
// of a large set would cost minutes, so some are watched, spread evenly over all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::dataset {

/// A watched file. Of N watched files among M files, number i is file i M / N, rounded down.
struct WatchedFile {
  std::int64_t size = -1;  // -1: it can't be looked at
  std::int64_t changed_ns = 0;
};

struct FolderChangeDetector {
  /// All, up to 65,536 of them.
  std::vector<WatchedFile> files;
  /// Checksum of the sizes of the watched files, and of the first and last 32 KiB of 256 of them. It is equal for equal
  /// images, regardless of their place and time of writing. It can't show that one image among millions is exchanged
  /// for another.
  std::string content;
};

using PathOfFile = std::function<std::filesystem::path(std::int64_t file)>;

FolderChangeDetector watch_files(std::int64_t num_files, const PathOfFile& path);
/// Whether 1,024 of them have the sizes and times that they had.
bool are_unchanged(std::span<const WatchedFile> files, std::int64_t num_files, const PathOfFile& path);

}  // namespace trainctl::dataset
