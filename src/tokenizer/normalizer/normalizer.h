// Rewriting of text before it is split: lower case, accents, Unicode's normal forms, …
#pragma once

#include <memory>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/normalized_string.h"

namespace trainctl::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// The rewritten text. `target` holds nothing that `source` points into.
  virtual void apply(const Piece& source, NormalizedString& target, Alignment alignment) const = 0;
};

/// Reads the normalizer of a tokenizer.json; null if the file has null.
std::unique_ptr<Normalizer> read_normalizer(const JsonCursor& json, const SharedCharacters& characters);

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};
std::unique_ptr<Normalizer> bert_normalizer(const BertNormalizerOptions& options, const SharedCharacters& characters);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::unique_ptr<Normalizer> unicode_normalizer(NormalForm form);

/// The text that a normalizer, which may be null, makes of a text.
std::string normalized(const Normalizer* normalizer, std::string_view text);

}  // namespace trainctl::tokenizer
