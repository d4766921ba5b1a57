// Bytes of a file, compressed or not, read in order. Never trusts a size that the file claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace trainctl::dataset {

/// The content of a file that may be gzip (RFC 1952, all its members one after the other): what it begins with decides.
/// Errors name the file and the offset in it.
class ContentReader {
 public:
  /// Reads the file as it is stored into memory.
  explicit ContentReader(const std::filesystem::path& path);
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;
  ~ContentReader();

  const std::string& path() const { return path_; }
  bool compressed() const { return inflater_ != nullptr; }
  /// Bytes of content read so far.
  std::uint64_t offset() const { return offset_; }
  /// No more than this can still follow: exact for a raw file, gzip's best ratio otherwise.
  std::uint64_t most_left() const;
  /// Fills `out` as far as content goes; fewer bytes only at its end, when gzip's checksum was found right.
  std::size_t read(std::span<std::byte> out);
  /// "at byte 8", or "at byte 8 of its uncompressed content".
  std::string at(std::uint64_t offset) const;

 private:
  class Inflater;

  std::string path_;
  std::string stored_;
  std::uint64_t offset_ = 0;
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace trainctl::dataset
