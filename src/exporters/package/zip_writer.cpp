#include "exporters/package/zip_writer.h"

#include <zlib.h>

#include <limits>

#include "core/error.h"

namespace trainctl::exporters {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kFirstDay = 0x00210000;  // 1980-01-01, so that equal content gives equal bytes

/// Little-endian.
void put(std::string& to, std::uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

std::uint32_t sum_of(std::string_view content) {
  uLong sum = crc32(0, nullptr, 0);
  while (!content.empty()) {
    const std::string_view part = content.substr(0, std::size_t{1} << 30);
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    content.remove_prefix(part.size());
  }
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view content) {
  if (file_.offset() + content.size() + name.size() + 128 > kMostBytes)
    throw core::Error("the archive would have more than 4 GiB, which its readers don't take")
        .hint("export to onnx, whose tensors may lie in a file of their own");
  const Entry entry{.name = name,
                    .sum = sum_of(content),
                    .size = static_cast<std::uint32_t>(content.size()),
                    .offset = static_cast<std::uint32_t>(file_.offset())};
  std::string header;
  put(header, 0x04034b50, 4);
  put(header, 20, 2);  // version needed
  put(header, 0, 4);   // flags, method: stored
  put(header, kFirstDay, 4);
  put(header, entry.sum, 4);
  put(header, entry.size, 4);
  put(header, entry.size, 4);
  put(header, name.size(), 2);
  put(header, 0, 2);
  file_.write(header + name);
  file_.write(content);
  entries_.push_back(entry);
}

void ZipWriter::close() {
  const std::uint64_t begin = file_.offset();
  std::string directory;
  for (const Entry& entry : entries_) {
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    put(directory, 20, 2);
    put(directory, 0, 4);
    put(directory, kFirstDay, 4);
    put(directory, entry.sum, 4);
    put(directory, entry.size, 4);
    put(directory, entry.size, 4);
    put(directory, entry.name.size(), 2);
    put(directory, 0, 12);  // extra field, comment, disk, attributes
    put(directory, entry.offset, 4);
    directory += entry.name;
  }
  const std::size_t size = directory.size();
  put(directory, 0x06054b50, 4);
  put(directory, 0, 4);
  put(directory, entries_.size(), 2);
  put(directory, entries_.size(), 2);
  put(directory, size, 4);
  put(directory, begin, 4);
  put(directory, 0, 2);
  file_.write(directory);
  file_.close(core::Durability::process);
}

}  // namespace trainctl::exporters
