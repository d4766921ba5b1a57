// What a SentencePiece model file says that its library's interface doesn't.
#pragma once

#include <string_view>
#include <vector>

namespace trainctl::tokenizer {

/// Kinds of pieces, by their numbers in sentencepiece_model.proto.
enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePieceFile {
  struct Piece {
    std::string_view text;  // within the file's bytes
    float score = 0;
    PieceType type = PieceType::normal;
  };
  bool is_unigram = true;
  bool byte_fallback = false;  // a character that no piece has is its bytes
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool changes_characters = false;  // by rules such as those of NFKC
  std::vector<Piece> pieces;        // by id
};

/// Reads a ModelProto that the library has loaded. `bytes` must outlive the result.
SentencePieceFile read_sentence_piece_file(std::string_view bytes);

}  // namespace trainctl::tokenizer
