// Space and write rate of directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainctl::machine {

struct Space {
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;  // for a process without privileges
  std::string problem;          // why the two are unknown; empty if they are known
};

/// Returns the space of the file system that holds `path`.
Space space_of(const std::filesystem::path& path);

/// Returns `path` if it is a directory, else the nearest directory above it.
std::filesystem::path nearest_directory(const std::filesystem::path& path);

struct WriteRate {
  double bytes_per_s = 0;  // 0 if nothing could be written
  std::string problem;     // why writing failed; empty if it did not
};

/// Writes and syncs a nameless file in `directory` until 64 MiB are on the disk or half a second is over. Nothing is
/// left behind.
WriteRate measure_write_rate(const std::filesystem::path& directory);

}  // namespace trainctl::machine
