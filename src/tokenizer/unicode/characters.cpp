#include "tokenizer/unicode/characters.h"

#include <unicode/uchar.h>

#include <span>

#include "tokenizer/unicode/unicode_ranges.h"

namespace trainctl::tokenizer {
namespace {

constexpr std::size_t kNumCodes = 0x110000;
constexpr std::uint32_t kSpaces[] = {9, 5, 18, 1, 100, 1, 26, 1, 5599, 1, 2431, 11, 29, 2, 5, 1, 47, 1, 4000, 1};

void mark_ranges(std::vector<std::uint16_t>& kinds, std::span<const std::uint32_t> ranges, Kind kind) {
  std::size_t code = 0;
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    code += ranges[i];
    for (const std::size_t end = code + ranges[i + 1]; code < end; ++code)
      kinds[code] = static_cast<std::uint16_t>(kinds[code] | bits(kind));
  }
}

/// Capital letters of Unicode 16 and 17, which the reference knows and ICU 72 lacks.
struct NewCapitals {
  char32_t first, last;
  std::int32_t to_lower;
};
constexpr NewCapitals kNewCapitals[] = {
    {0x1C89, 0x1C89, 1},    {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},    {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},    {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},    {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 32}, {0x16EA0, 0x16EB8, 27},
};

}  // namespace

Characters::Characters() : kinds_(kNumCodes) {
  namespace ranges = unicode_ranges;
  mark_ranges(kinds_, ranges::kLetters, Kind::letter);
  mark_ranges(kinds_, ranges::kNumbers, Kind::number);
  mark_ranges(kinds_, kSpaces, Kind::space);
  mark_ranges(kinds_, ranges::kWords, Kind::word);
  mark_ranges(kinds_, ranges::kDigits, Kind::digit);
  mark_ranges(kinds_, ranges::kPunctuation, Kind::punctuation);
  mark_ranges(kinds_, ranges::kControls, Kind::control);
  mark_ranges(kinds_, ranges::kAccents, Kind::accent);
  mark_ranges(kinds_, ranges::kMarks, Kind::mark);
}

std::u32string_view lower_case(char32_t code, char32_t (&room)[2]) {
  if (code == 0x130) {
    room[0] = U'i';
    room[1] = 0x307;
    return {room, 2};
  }
  room[0] = static_cast<char32_t>(u_tolower(static_cast<UChar32>(code)));
  if (code < kNewCapitals[0].first) return {room, 1};
  for (const NewCapitals& capitals : kNewCapitals)
    if (code >= capitals.first && code <= capitals.last)
      room[0] = static_cast<char32_t>(static_cast<std::int32_t>(code) + capitals.to_lower);
  return {room, 1};
}

}  // namespace trainctl::tokenizer
