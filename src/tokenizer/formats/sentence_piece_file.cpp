#include "tokenizer/formats/sentence_piece_file.h"

#include <protozero/pbf_reader.hpp>

#include "core/error.h"

namespace trainctl::tokenizer {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

pbf_reader reader_of(std::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

/// Whether the field has this number and is a number, a text or a message, or a float. Others are left aside.
bool is_varint(const pbf_reader& field, protozero::pbf_tag_type tag) {
  return field.tag_and_type() == protozero::tag_and_type(tag, pbf_wire_type::varint);
}
bool is_bytes(const pbf_reader& field, protozero::pbf_tag_type tag) {
  return field.tag_and_type() == protozero::tag_and_type(tag, pbf_wire_type::length_delimited);
}
bool is_float(const pbf_reader& field, protozero::pbf_tag_type tag) {
  return field.tag_and_type() == protozero::tag_and_type(tag, pbf_wire_type::fixed32);
}

std::string_view bytes_of(pbf_reader& field) {
  const protozero::data_view view = field.get_view();
  return {view.data(), view.size()};
}

SentencePieceFile::Piece read_piece(pbf_reader field) {
  SentencePieceFile::Piece piece;
  while (field.next()) {
    if (is_bytes(field, 1))
      piece.text = bytes_of(field);
    else if (is_float(field, 2))
      piece.score = field.get_float();
    else if (is_varint(field, 3))
      piece.type = static_cast<PieceType>(field.get_int64());
    else
      field.skip();
  }
  return piece;
}

void read_trainer(pbf_reader field, SentencePieceFile& file) {
  constexpr std::int64_t kUnigram = 1;
  while (field.next()) {
    if (is_varint(field, 3))
      file.is_unigram = field.get_int64() == kUnigram;
    else if (is_varint(field, 35))
      file.byte_fallback = field.get_int64() != 0;
    else
      field.skip();
  }
}

void read_normalizer(pbf_reader field, SentencePieceFile& file) {
  while (field.next()) {
    if (is_bytes(field, 2))
      file.changes_characters = !bytes_of(field).empty();
    else if (is_varint(field, 3))
      file.add_dummy_prefix = field.get_int64() != 0;
    else if (is_varint(field, 4))
      file.remove_extra_whitespaces = field.get_int64() != 0;
    else
      field.skip();
  }
}

}  // namespace

SentencePieceFile read_sentence_piece_file(std::string_view bytes) {
  SentencePieceFile file;
  try {
    for (pbf_reader field = reader_of(bytes); field.next();) {
      if (is_bytes(field, 1))
        file.pieces.push_back(read_piece(reader_of(bytes_of(field))));
      else if (is_bytes(field, 2))
        read_trainer(reader_of(bytes_of(field)), file);
      else if (is_bytes(field, 3))
        read_normalizer(reader_of(bytes_of(field)), file);
      else
        field.skip();
    }
  } catch (const protozero::exception&) {
    throw core::Error("a SentencePiece model has a field that protobuf lacks");
  }
  return file;
}

}  // namespace trainctl::tokenizer
