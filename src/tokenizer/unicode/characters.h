// What kind of character each code point is, as `tokenizers` has it. Immutable; one table serves a whole tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace trainctl::tokenizer {

enum class Kind : std::uint16_t {
  letter = 1,
  number = 2,
  space = 4,
  word = 8,
  digit = 16,
  punctuation = 32,
  control = 64,
  accent = 128,  // what BertNormalizer strips
  mark = 256,    // what StripAccents strips
};

class Characters {
 public:
  Characters();
  bool is(char32_t code, Kind kind) const { return (kinds_[code] & static_cast<std::uint16_t>(kind)) != 0; }
  /// Any of several kinds, or-ed together.
  bool any(char32_t code, unsigned kinds) const { return (kinds_[code] & kinds) != 0; }

 private:
  std::vector<std::uint16_t> kinds_;  // by code point
};

using SharedCharacters = std::shared_ptr<const Characters>;

inline constexpr unsigned bits(Kind kind) {
  return static_cast<unsigned>(kind);
}

/// The simple or, for İ alone, full lower case of a character, whatever is around it.
std::u32string_view lower_case(char32_t code, char32_t (&room)[2]);

}  // namespace trainctl::tokenizer
