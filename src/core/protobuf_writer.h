// Messages in protobuf's wire format (https://protobuf.dev/programming-guides/encoding), for TensorBoard's events and
// ONNX. By our own hand: SentencePiece's library and LibTorch's each bring a protobuf of their own among their symbols,
// and a third would be mixed up with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl::core {

enum class WireType : std::uint8_t { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

/// Fields in the order in which they are given; a message in a message is its bytes.
class ProtobufWriter {
 public:
  void integer(int field, std::int64_t value);
  void number(int field, float value);
  void number(int field, double value);
  void bytes(int field, std::string_view value);
  std::string take() { return std::move(bytes_); }

 private:
  void tag(int field, WireType type);
  void varint(std::uint64_t value);
  void little_endian(std::uint64_t value, int size);

  std::string bytes_;
};

}  // namespace trainctl::core
