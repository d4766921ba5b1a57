// A zip archive whose entries are stored as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace trainctl::exporters {

class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path);
  /// `name` as "MAR-INF/MANIFEST.json". An archive beyond 4 GiB is an Error: its readers know no zip64.
  void add(const std::string& name, std::string_view content);
  /// Writes the directory of the archive. Nothing is whole before.
  void close();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::unique_ptr<void, int (*)(void*)> zip_;  // minizip's zipFile
  std::uint64_t size_ = 0;
};

}  // namespace trainctl::exporters
