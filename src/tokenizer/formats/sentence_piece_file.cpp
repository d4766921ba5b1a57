#include "tokenizer/formats/sentence_piece_file.h"

#include <cstdint>
#include <cstring>

#include "core/error.h"

namespace trainctl::tokenizer {
namespace {

/// Fields of a protobuf message, one after the other (https://protobuf.dev/programming-guides/encoding).
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = take_varint();
    number_ = tag >> 3U;
    switch (tag & 7U) {
      case 0:
        value_ = take_varint();
        break;
      case 1:
        bytes_ = take(8);
        break;
      case 2:
        bytes_ = take(take_varint());
        break;
      case 5:
        bytes_ = take(4);
        break;
      default:
        fail();
    }
    return true;
  }
  std::uint64_t number() const { return number_; }
  std::uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }

 private:
  [[noreturn]] static void fail() { throw core::Error("a SentencePiece model has a field that protobuf lacks"); }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    fail();
  }

  std::string_view rest_;
  std::uint64_t number_ = 0;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
};

SentencePieceFile::Piece read_piece(std::string_view bytes) {
  SentencePieceFile::Piece piece;
  for (Fields fields(bytes); fields.next();) {
    if (fields.number() == 1) piece.text = fields.bytes();
    if (fields.number() == 2 && fields.bytes().size() == sizeof piece.score)
      std::memcpy(&piece.score, fields.bytes().data(), sizeof piece.score);
    if (fields.number() == 3) piece.type = static_cast<PieceType>(fields.value());
  }
  return piece;
}

}  // namespace

SentencePieceFile read_sentence_piece_file(std::string_view bytes) {
  constexpr std::uint64_t kUnigram = 1;
  SentencePieceFile file;
  for (Fields fields(bytes); fields.next();) {
    if (fields.number() == 1) file.pieces.push_back(read_piece(fields.bytes()));
    if (fields.number() == 2)
      for (Fields trainer(fields.bytes()); trainer.next();) {
        if (trainer.number() == 3) file.is_unigram = trainer.value() == kUnigram;
        if (trainer.number() == 35) file.byte_fallback = trainer.value() != 0;
      }
    if (fields.number() == 3)
      for (Fields normalizer(fields.bytes()); normalizer.next();) {
        if (normalizer.number() == 2) file.changes_characters = !normalizer.bytes().empty();
        if (normalizer.number() == 3) file.add_dummy_prefix = normalizer.value() != 0;
        if (normalizer.number() == 4) file.remove_extra_whitespaces = normalizer.value() != 0;
      }
  }
  return file;
}

}  // namespace trainctl::tokenizer
