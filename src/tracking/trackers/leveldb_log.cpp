#include "tracking/trackers/leveldb_log.h"

#include <boost/crc.hpp>

namespace trainctl::tracking {
namespace {

constexpr std::size_t kBlockBytes = 32768;
constexpr std::size_t kHeaderBytes = 7;

enum class PartType : unsigned char { full = 1, first = 2, middle = 3, last = 4 };

PartType part_type(bool begins, bool ends) {
  if (begins) return ends ? PartType::full : PartType::first;
  return ends ? PartType::last : PartType::middle;
}

std::string log_part(PartType type, std::string_view data) {
  boost::crc_32_type crc;
  crc.process_byte(static_cast<unsigned char>(type));
  crc.process_bytes(data.data(), data.size());
  std::string part;
  for (int shift = 0; shift < 32; shift += 8) part += static_cast<char>(crc.checksum() >> shift & 0xff);
  part += static_cast<char>(data.size() & 0xff);
  part += static_cast<char>(data.size() >> 8);
  part += static_cast<char>(type);
  return part.append(data);
}

}  // namespace

std::string wandb_log_header() {
  using namespace std::string_literals;
  return ":W&B\xe1\xbe\0"s;
}

std::string leveldb_record(std::string_view data, std::int64_t size) {
  std::string bytes;
  bool begins = true;
  do {
    std::size_t room = kBlockBytes - (static_cast<std::size_t>(size) + bytes.size()) % kBlockBytes;
    if (room < kHeaderBytes) {
      bytes.append(room, '\0');
      room = kBlockBytes;
    }
    const std::string_view part = data.substr(0, room - kHeaderBytes);
    data.remove_prefix(part.size());
    bytes += log_part(part_type(begins, data.empty()), part);
    begins = false;
  } while (!data.empty());
  return bytes;
}

}  // namespace trainctl::tracking
