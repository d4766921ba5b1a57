// From tokens' texts back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/unicode/characters.h"

namespace trainctl::tokenizer {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// The texts that the tokens become; joined, they are the decoded text.
  virtual std::vector<std::string> decode(std::vector<std::string> tokens) const = 0;
};

/// Reads the decoder of a tokenizer.json; null if the file has null.
std::unique_ptr<Decoder> read_decoder(const JsonCursor& json, const SharedCharacters& characters);
std::unique_ptr<Decoder> byte_level_decoder();
std::unique_ptr<Decoder> word_piece_decoder(std::string prefix);
/// Removes the spaces before punctuation and contractions that English text does not have, as transformers does it to a
/// decoded text.
std::string clean_up_tokenization(std::string text);

}  // namespace trainctl::tokenizer
