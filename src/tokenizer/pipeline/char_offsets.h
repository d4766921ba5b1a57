// From bytes of a text to the code points that Python counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/normalized_string.h"

namespace trainctl::tokenizer {

class CharOffsets {
 public:
  explicit CharOffsets(std::string_view text) {
    if (core::is_ascii(text)) return;
    chars_.resize(text.size());
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      next += core::is_continuation(text[i]) ? 0 : 1;
      chars_[i] = next - 1;
    }
  }

  /// How many characters begin before a byte.
  std::int32_t before(std::uint32_t byte) const { return byte == 0 ? 0 : char_of(byte - 1) + 1; }

  /// What bytes [begin, end) of a piece stand for.
  TextRange of(const Piece& piece, std::size_t begin, std::size_t end) const {
    end = std::min(end, piece.text.size());
    if (begin >= end) {
      const std::int32_t at = begin < piece.text.size() ? char_of(piece.span_at(begin).begin) : 0;
      return {at, at};
    }
    if (piece.spans != nullptr) return range(piece.spans[begin].begin, piece.spans[end - 1].end);
    return range(piece.origin + static_cast<std::uint32_t>(begin), piece.origin + static_cast<std::uint32_t>(end));
  }

 private:
  TextRange range(std::uint32_t begin, std::uint32_t end) const { return {char_of(begin), before(end)}; }
  /// The character that a byte is part of.
  std::int32_t char_of(std::uint32_t byte) const {
    return static_cast<std::int32_t>(chars_.empty() ? byte : chars_[byte]);
  }

  std::vector<std::uint32_t> chars_;  // by byte; empty for ASCII
};

}  // namespace trainctl::tokenizer
