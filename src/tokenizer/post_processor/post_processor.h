// What is done with a text's tokens at last: trimmed offsets, special tokens around one text or two.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/characters.h"

namespace trainctl::tokenizer {

/// How many spaces (or Ġ) a token begins and ends with.
struct TokenSpaces {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};
TokenSpaces token_spaces(std::string_view token, const Characters& characters);

/// Tokens of one text on their way through the steps.
struct PartEncoding {
  Encoding encoding;
  std::vector<TokenSpaces> spaces;  // of each token, where offsets are trimmed
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// One part or two (a pair) come in; templates give back what they make of them as one part.
  virtual void process(std::vector<PartEncoding>& parts, SpecialTokens special_tokens) const = 0;
  virtual std::int64_t num_added(std::size_t num_texts) const = 0;
  virtual bool trims_offsets() const { return false; }
  /// Whether it puts tokens around texts, after which no second such step can follow.
  virtual bool is_template() const { return false; }
};

/// Reads the post-processor of a tokenizer.json; null if the file has null.
std::unique_ptr<PostProcessor> read_post_processor(const JsonCursor& json);
/// [CLS] A [SEP], [CLS] A [SEP] B [SEP].
std::unique_ptr<PostProcessor> bert_template(std::uint32_t cls, std::uint32_t sep);
/// One token before each text.
std::unique_ptr<PostProcessor> begin_template(std::uint32_t begin);

}  // namespace trainctl::tokenizer
