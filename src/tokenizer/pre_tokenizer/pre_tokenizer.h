// Splitting of normalized text into the words that the model then looks at one by one.
#pragma once

#include <memory>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/pattern/pattern.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/normalized_string.h"

namespace trainctl::tokenizer {

/// How a split treats what it splits at (Hugging Face's SplitDelimiterBehavior).
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// What a step works with besides the piece; kept by the caller so that its memory is used again.
struct SplitRoom {
  TextStore& texts;
  Alignment alignment;
  std::vector<Match> matches{};
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Appends the parts of a piece. Empty ones are left out by the caller.
  virtual void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom& room) const = 0;
  /// Whether it must know where in the original a piece begins.
  virtual bool needs_spans() const { return false; }
};

using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

/// Steps in order. The last ByteLevel's rewriting of bytes as characters is left to the model where it can do without:
/// that is told by `byte_level`.
struct PreTokenization {
  PreTokenizers steps;
  bool byte_level = false;
};

/// Reads the pre-tokenizers of a tokenizer.json; no steps if the file has null.
PreTokenization read_pre_tokenizers(const JsonCursor& json, const SharedCharacters& characters);
std::unique_ptr<PreTokenizer> bert_pre_tokenizer(const SharedCharacters& characters);
/// Splits at the matches of a pattern (isolated, as ByteLevel does).
std::unique_ptr<PreTokenizer> pattern_pre_tokenizer(std::unique_ptr<Pattern> pattern);
/// Rewrites bytes as GPT-2's characters.
std::unique_ptr<PreTokenizer> byte_chars_pre_tokenizer();

}  // namespace trainctl::tokenizer
