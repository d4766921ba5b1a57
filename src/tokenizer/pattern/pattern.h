// Where a text matches: a fixed text, a regular expression of Oniguruma's dialect, or one of the well-known expressions
// that have a scanner of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/unicode/characters.h"

namespace trainctl::tokenizer {

struct Match {
  std::size_t begin;
  std::size_t end;
};

class Pattern {
 public:
  virtual ~Pattern() = default;
  /// Appends the matches from left to right, not overlapping. Throws Error where an expression takes forever.
  virtual void find(std::string_view text, std::vector<Match>& matches) const = 0;
};

/// {"String": …} or {"Regex": …}.
std::unique_ptr<Pattern> read_pattern(const JsonCursor& json, const SharedCharacters& characters);
/// One character.
std::unique_ptr<Pattern> text_pattern(std::string_view text);
/// GPT-2's.
std::unique_ptr<Pattern> gpt2_pattern(const SharedCharacters& characters);
/// Llama 3's (digits by three) and others' that differ in how many digits go together.
std::unique_ptr<Pattern> llama3_pattern(const SharedCharacters& characters, int max_digits);

/// By ICU. `where` is for the Error of an expression that it can't read or would read differently.
std::unique_ptr<Pattern> regex_pattern(std::string_view expression, const std::string& where);

/// Refuses a text of `bytes` that rules of a tokenizer make of one of `given` bytes, if it is far larger. A file of a
/// few hundred bytes could double a text again and again. `where` names the rules.
void refuse_growth(std::size_t given, std::size_t bytes, const std::string& where);

}  // namespace trainctl::tokenizer
