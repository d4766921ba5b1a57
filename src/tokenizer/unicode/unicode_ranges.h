// Sets of characters as ranges: gap since the last range's end, length, gap, length, … scripts/unicode_ranges.py writes
// them and says what each is for.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace trainctl::tokenizer::unicode_ranges {

extern const std::span<const std::uint32_t> kLetters;
extern const std::span<const std::uint32_t> kNumbers;
extern const std::span<const std::uint32_t> kDecimals;
extern const std::span<const std::uint32_t> kRegexWords;
extern const std::span<const std::uint32_t> kWords;
extern const std::span<const std::uint32_t> kDigits;
extern const std::span<const std::uint32_t> kPunctuation;
extern const std::span<const std::uint32_t> kControls;
extern const std::span<const std::uint32_t> kAccents;
extern const std::span<const std::uint32_t> kMarks;

}  // namespace trainctl::tokenizer::unicode_ranges
