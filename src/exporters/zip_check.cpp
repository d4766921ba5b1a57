#include "exporters/zip_check.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"

namespace trainctl::exporters {
namespace {

constexpr std::uint32_t kInZip64 = 0xffffffff;  // the number stands elsewhere
constexpr std::uint64_t kStored = 0;
constexpr std::uint64_t kDeflated = 8;

/// Little-endian numbers of an archive; beyond its end is an Error.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const { return bytes_.size(); }
  std::span<const std::byte> part(std::uint64_t begin, std::uint64_t size) const {
    if (begin > bytes_.size() || size > bytes_.size() - begin) throw core::Error("the archive ends too early");
    return bytes_.subspan(begin, size);
  }
  std::uint64_t number(std::uint64_t at, std::size_t size) const {
    std::uint64_t value = 0;
    std::memcpy(&value, part(at, size).data(), size);
    return value;
  }
  std::string text(std::uint64_t at, std::uint64_t size) const {
    const auto bytes = part(at, size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Where the archive's directory begins, and how many entries it has.
struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t num_entries = 0;
};

Directory find_directory(const Bytes& archive) {
  constexpr std::uint64_t kEndSize = 22;
  constexpr std::uint64_t kLongestComment = 65535;
  for (std::uint64_t back = kEndSize; back <= archive.size() && back <= kEndSize + kLongestComment; ++back) {
    const std::uint64_t at = archive.size() - back;
    if (archive.number(at, 4) != 0x06054b50) continue;
    Directory directory{.begin = archive.number(at + 16, 4), .num_entries = archive.number(at + 10, 2)};
    if (at >= 20 && archive.number(at - 20, 4) == 0x07064b50) {
      const std::uint64_t zip64 = archive.number(at - 12, 8);
      directory = {.begin = archive.number(zip64 + 48, 8), .num_entries = archive.number(zip64 + 32, 8)};
    }
    return directory;
  }
  throw core::Error("it is cut off, or no archive");
}

void check_name(const std::string& name) {
  const bool leads_out = name.starts_with('/') || name.find("..") != std::string::npos ||
                         name.find('\\') != std::string::npos || name.find('\0') != std::string::npos;
  if (leads_out) throw core::Error("an entry of the archive has the name `" + name + "`, which leads out of it");
}

std::uint32_t sum_of(std::span<const std::byte> bytes) {
  uLong sum = crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    bytes = bytes.subspan(part.size());
  }
  return static_cast<std::uint32_t>(sum);
}

/// Of what deflated bytes become; an Error where that isn't `size` bytes.
std::uint32_t inflated_sum(std::span<const std::byte> bytes, std::uint64_t size, const std::string& name) {
  z_stream stream{};
  if (bytes.size() > kInZip64 || inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    throw core::Error("`" + name + "` can't be unpacked");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));  // zlib only reads it
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::vector<Bytef> buffer(std::size_t{1} << 16);
  uLong sum = crc32(0, nullptr, 0);
  int state = Z_OK;
  std::uint64_t done = 0;
  while (state == Z_OK && done <= size) {
    stream.next_out = buffer.data();
    stream.avail_out = static_cast<uInt>(buffer.size());
    state = inflate(&stream, Z_NO_FLUSH);
    const std::size_t count = buffer.size() - stream.avail_out;
    sum = crc32(sum, buffer.data(), static_cast<uInt>(count));
    done += count;
  }
  if (state != Z_STREAM_END || done != size) throw core::Error("`" + name + "` in it is damaged");
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

void check_archive(std::span<const std::byte> bytes) {
  const Bytes archive(bytes);
  const Directory directory = find_directory(archive);
  std::uint64_t at = directory.begin;
  for (std::uint64_t i = 0; i < directory.num_entries; ++i) {
    if (archive.number(at, 4) != 0x02014b50) throw core::Error("the archive's directory is damaged");
    const std::uint64_t name_size = archive.number(at + 28, 2);
    const std::string name = archive.text(at + 46, name_size);
    check_name(name);
    const std::uint64_t method = archive.number(at + 10, 2);
    if (method != kStored && method != kDeflated) throw core::Error("`" + name + "` is compressed in an unknown way");
    const std::uint64_t size = archive.number(at + 24, 4);
    const std::uint64_t packed = archive.number(at + 20, 4);
    const std::uint64_t local = archive.number(at + 42, 4);
    if (size != kInZip64 && local != kInZip64) {
      if (archive.number(local, 4) != 0x04034b50) throw core::Error("the archive's directory is damaged");
      const std::uint64_t begin = local + 30 + archive.number(local + 26, 2) + archive.number(local + 28, 2);
      const auto content = archive.part(begin, packed);
      if (method == kStored && packed != size) throw core::Error("`" + name + "` in it has two sizes");
      const std::uint32_t sum = method == kStored ? sum_of(content) : inflated_sum(content, size, name);
      if (sum != archive.number(at + 16, 4))
        throw core::Error("`" + name + "` in it doesn't have its checksum: the file is damaged");
    }
    at += 46 + name_size + archive.number(at + 30, 2) + archive.number(at + 32, 2);
  }
}

}  // namespace trainctl::exporters
