#include "core/protobuf_writer.h"

#include <bit>

namespace trainctl::core {

void ProtobufWriter::integer(int field, std::int64_t value) {
  tag(field, WireType::varint);
  varint(static_cast<std::uint64_t>(value));
}

void ProtobufWriter::number(int field, float value) {
  tag(field, WireType::four_bytes);
  little_endian(std::bit_cast<std::uint32_t>(value), 4);
}

void ProtobufWriter::number(int field, double value) {
  tag(field, WireType::eight_bytes);
  little_endian(std::bit_cast<std::uint64_t>(value), 8);
}

void ProtobufWriter::bytes(int field, std::string_view value) {
  tag(field, WireType::bytes);
  varint(value.size());
  bytes_ += value;
}

void ProtobufWriter::tag(int field, WireType type) {
  varint(static_cast<std::uint64_t>(field) << 3U | static_cast<std::uint64_t>(type));
}

void ProtobufWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
  bytes_ += static_cast<char>(value);
}

void ProtobufWriter::little_endian(std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i));
}

}  // namespace trainctl::core
