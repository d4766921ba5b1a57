// A zip archive whose entries are stored as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace trainctl::exporters {

class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path) : file_(path) {}
  /// `name` as "MAR-INF/MANIFEST.json". An archive beyond 4 GiB is an Error: its readers know no zip64.
  void add(const std::string& name, std::string_view content);
  /// Writes the directory of the archive. Nothing is whole before.
  void close();

 private:
  struct Entry {
    std::string name;
    std::uint32_t sum = 0;  // CRC-32
    std::uint32_t size = 0;
    std::uint32_t offset = 0;
  };
  core::FileWriter file_;
  std::vector<Entry> entries_;
};

}  // namespace trainctl::exporters
