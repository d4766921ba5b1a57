// Text on its way through a tokenizer, which remembers what of the original each of its bytes stands for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/utf8.h"

namespace trainctl::tokenizer {

/// Bytes of the original text.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Rewritten text. `spans` has one entry a byte, all of a character's being equal; it is empty where nobody asked.
struct NormalizedString {
  std::string text;
  std::vector<Span> spans;
};

inline constexpr std::int32_t kNoToken = -1;

/// A part of the text that is looked at by itself. Views are into the original or into an NormalizedString.
struct Piece {
  std::string_view text;
  const Span* spans = nullptr;  // of each byte; null: byte i is byte origin + i of the original
  std::uint32_t origin = 0;
  std::int32_t token = kNoToken;  // an added token: nothing more is done with the piece

  Piece part(std::size_t begin, std::size_t end) const {
    return {text.substr(begin, end - begin), spans == nullptr ? nullptr : spans + begin,
            origin + static_cast<std::uint32_t>(begin), kNoToken};
  }
  /// What the character at byte `at` (a boundary) stands for.
  Span span_at(std::size_t at) const {
    if (spans != nullptr) return spans[at];
    const auto begin = origin + static_cast<std::uint32_t>(at);
    return {begin, begin + static_cast<std::uint32_t>(core::char_length(text[at]))};
  }
};

/// Whether spans are kept: ids alone need none.
enum class Alignment { keep, drop };

/// Builds an NormalizedString from another text, character by character.
class Rewriter {
 public:
  Rewriter(NormalizedString& target, Alignment alignment) : target_(target), alignment_(alignment) {
    target_.text.clear();
    target_.spans.clear();
  }
  void put(std::string_view text, Span span) {
    target_.text.append(text);
    if (alignment_ == Alignment::keep) target_.spans.insert(target_.spans.end(), text.size(), span);
  }
  void put(char32_t code, Span span) {
    const std::size_t before = target_.text.size();
    core::append_utf8(target_.text, code);
    if (alignment_ == Alignment::keep) target_.spans.insert(target_.spans.end(), target_.text.size() - before, span);
  }
  /// Bytes as they are.
  void copy(const Piece& source, std::size_t begin, std::size_t end) {
    target_.text.append(source.text.substr(begin, end - begin));
    if (alignment_ == Alignment::keep)
      for (std::size_t at = begin; at < end;) {
        const std::size_t length = core::char_length(source.text[at]);
        target_.spans.insert(target_.spans.end(), length, source.span_at(at));
        at += length;
      }
  }

 private:
  NormalizedString& target_;
  Alignment alignment_;
};

/// Rewritten texts that the pieces of one call point into; their memory is used again by the next call.
class TextStore {
 public:
  /// Stays where it is until clear().
  NormalizedString& make() {
    if (used_ == texts_.size()) texts_.push_back(std::make_unique<NormalizedString>());
    return *texts_[used_++];
  }
  void clear() { used_ = 0; }
  /// The whole of a rewritten text as a piece in place of `source`.
  static Piece piece(const NormalizedString& text, const Piece& source) {
    return {text.text, text.spans.empty() ? nullptr : text.spans.data(), source.origin, kNoToken};
  }

 private:
  std::vector<std::unique_ptr<NormalizedString>> texts_;
  std::size_t used_ = 0;
};

}  // namespace trainctl::tokenizer
