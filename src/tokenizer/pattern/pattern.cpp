#include "tokenizer/pattern/pattern.h"

#include <array>

#include "core/error.h"
#include "core/text.h"
#include "core/utf8.h"

namespace trainctl::tokenizer {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Llama 3's expression, with `digits` after \p{N}.
std::string llama3_expression(std::string_view digits) {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" + std::string(digits) +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

class TextPattern final : public Pattern {
 public:
  explicit TextPattern(std::string_view text) : text_(text) {}
  void find(std::string_view text, std::vector<Match>& matches) const override {
    if (text_.empty()) return;
    for (std::size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size()))
      matches.push_back({at, at + text_.size()});
  }

 private:
  std::string text_;
};

constexpr unsigned kLetter = bits(Kind::letter), kNumber = bits(Kind::number), kSpace = bits(Kind::space);

/// Base of the scanners: kinds of characters, and runs of one kind.
class Scanner : public Pattern {
 public:
  explicit Scanner(SharedCharacters characters) : characters_(std::move(characters)) {
    for (char32_t code = 0; code < 0x80; ++code)
      for (const unsigned kind : {kLetter, kNumber, kSpace})
        if (characters_->any(code, kind)) ascii_[code] = static_cast<std::uint8_t>(kind);
  }

 protected:
  struct Seen {
    unsigned kind;  // letter, number, space or 0
    std::uint32_t length;
  };
  Seen look(std::string_view text, std::size_t at) const {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) return {ascii_[byte], 1};
    const core::Decoded decoded = core::decode_at(text, at);
    for (const unsigned kind : {kLetter, kNumber, kSpace})
      if (characters_->any(decoded.code, kind)) return {kind, decoded.length};
    return {0, decoded.length};
  }

  /// Returns the end of the run of `kind` that begins at `at`.
  std::size_t run(std::string_view text, std::size_t at, unsigned kind) const {
    while (at < text.size()) {
      const Seen seen = look(text, at);
      if (seen.kind != kind) break;
      at += seen.length;
    }
    return at;
  }

  /// Returns the end of `\s+(?!\S)|\s+`, given spaces from `at` to `end`. The match takes all spaces at the end of the
  /// text or if there is one; otherwise all but the last.
  static std::size_t spaces(std::string_view text, std::size_t at, std::size_t end) {
    if (end == text.size()) return end;
    const std::size_t last = end - core::decode_before(text, end).length;
    return last == at ? end : last;
  }

 private:
  SharedCharacters characters_;
  std::array<std::uint8_t, 0x80> ascii_{};
};

class Gpt2Scanner final : public Scanner {
 public:
  using Scanner::Scanner;
  void find(std::string_view text, std::vector<Match>& matches) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = next(text, at);
      matches.push_back({at, end});
      at = end;
    }
  }

 private:
  static std::size_t contraction(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return at + i < text.size() ? text[at + i] : '\0'; };
    switch (byte(1)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return at + 2;
      case 'r':
      case 'v':
        return byte(2) == 'e' ? at + 3 : at;
      case 'l':
        return byte(2) == 'l' ? at + 3 : at;
      default:
        return at;
    }
  }

  std::size_t next(std::string_view text, std::size_t at) const {
    if (text[at] == '\'') {
      const std::size_t end = contraction(text, at);
      if (end != at) return end;
    }
    const Seen first = look(text, at);
    if (first.kind != kSpace) return run(text, at + first.length, first.kind);
    if (text[at] == ' ' && at + 1 < text.size()) {
      const Seen second = look(text, at + 1);
      if (second.kind != kSpace) return run(text, at + 1 + second.length, second.kind);
    }
    return spaces(text, at, run(text, at + first.length, kSpace));
  }
};

class Llama3Scanner final : public Scanner {
 public:
  Llama3Scanner(SharedCharacters characters, int max_digits)
      : Scanner(std::move(characters)), max_digits_(max_digits) {}
  void find(std::string_view text, std::vector<Match>& matches) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = next(text, at);
      matches.push_back({at, end});
      at = end;
    }
  }

 private:
  /// Matches a contraction in either case; ſ counts as s.
  static std::size_t contraction(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
      const char c = at + i < text.size() ? text[at + i] : '\0';
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    switch (byte(1)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return at + 2;
      case 'r':
      case 'v':
        return byte(2) == 'e' ? at + 3 : at;
      case 'l':
        return byte(2) == 'l' ? at + 3 : at;
      case '\xC5':
        return byte(2) == '\xBF' ? at + 3 : at;
      default:
        return at;
    }
  }

  static bool is_break(char c) { return c == '\n' || c == '\r'; }

  std::size_t numbers(std::string_view text, std::size_t at) const {
    for (int count = 0; count < max_digits_ && at < text.size(); ++count) {
      const Seen seen = look(text, at);
      if (seen.kind != kNumber) break;
      at += seen.length;
    }
    return at;
  }

  /// Matches `[^\s\p{L}\p{N}]+[\r\n]*` at a character that fits it.
  std::size_t symbols(std::string_view text, std::size_t at) const {
    at = run(text, at, 0);
    while (at < text.size() && is_break(text[at])) ++at;
    return at;
  }

  std::size_t next(std::string_view text, std::size_t at) const {
    if (text[at] == '\'') {
      const std::size_t end = contraction(text, at);
      if (end != at) return end;
    }
    const Seen first = look(text, at);
    const std::size_t after = at + first.length;
    if (first.kind == kLetter) return run(text, after, kLetter);
    if (first.kind == kNumber) return numbers(text, at);
    const Seen second = after < text.size() ? look(text, after) : Seen{kSpace, 0};
    if (second.kind == kLetter && !is_break(text[at])) return run(text, after + second.length, kLetter);
    if (first.kind == 0) return symbols(text, at);
    if (text[at] == ' ' && second.kind == 0) return symbols(text, after);
    const std::size_t end = run(text, after, kSpace);
    for (std::size_t last = end; last > at; --last)
      if (is_break(text[last - 1])) return last;
    return spaces(text, at, end);
  }

  int max_digits_;
};

}  // namespace

std::unique_ptr<Pattern> text_pattern(std::string_view text) {
  return std::make_unique<TextPattern>(text);
}

std::unique_ptr<Pattern> gpt2_pattern(const SharedCharacters& characters) {
  return std::make_unique<Gpt2Scanner>(characters);
}

std::unique_ptr<Pattern> llama3_pattern(const SharedCharacters& characters, int max_digits) {
  return std::make_unique<Llama3Scanner>(characters, max_digits);
}

std::unique_ptr<Pattern> read_pattern(const JsonCursor& json, const SharedCharacters& characters) {
  if (json.has("String")) return text_pattern(json.text("String"));
  if (!json.has("Regex")) throw json.error("expected {\"String\": ...} or {\"Regex\": ...}");
  const std::string expression = json.text("Regex");
  if (expression == kGpt2) return gpt2_pattern(characters);
  if (expression == llama3_expression("{1,3}")) return llama3_pattern(characters, 3);
  if (expression == llama3_expression("")) return llama3_pattern(characters, 1);
  return regex_pattern(expression, json.at("Regex").where());
}

void refuse_growth(std::size_t given, std::size_t bytes, const std::string& where) {
  constexpr std::size_t kSmall = std::size_t{1} << 20;
  constexpr std::size_t kMostTimes = 16;
  if (bytes <= kSmall || bytes / kMostTimes <= given) return;
  throw core::Error(where + ": makes " + core::format_bytes(static_cast<double>(bytes)) + " of a text of " +
                    core::format_bytes(static_cast<double>(given)))
      .hint("check what it puts in place of other texts");
}

}  // namespace trainctl::tokenizer
