#include "chat_template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "chat_template/python_text.h"
#include "core/error.h"

namespace trainctl::chat_template {
namespace {

/// The characters of a one-letter escape, and what they stand for.
constexpr std::string_view kLetters = "\\'\"abfnrtv";
constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";

std::size_t num_hex_digits(char letter) {
  return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
}

/// Returns the text that a literal between its quotes stands for. `problem` is set if an escape is wrong.
std::string unescaped_literal(std::string_view literal, std::string& problem) {
  std::string out;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out += literal[i];
      continue;
    }
    const char letter = literal[++i];
    const std::size_t known = kLetters.find(letter);
    if (letter == '\n') continue;
    if (known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (const std::size_t digits = num_hex_digits(letter); digits > 0) {
      std::uint32_t code = 0;
      const std::string_view hex = literal.substr(i + 1, digits);
      const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      if (error != std::errc() || hex.size() != digits || end != hex.data() + digits || code > 0x10FFFF)
        problem = "the escape \\" + std::string(1, letter) + " takes " + std::to_string(digits) + " hexadecimal digits";
      append_code_point(out, code);
      i += hex.size();
    } else if (letter >= '0' && letter <= '7') {
      std::uint32_t code = 0;
      std::size_t count = 0;
      while (count < 3 && i < literal.size() && literal[i] >= '0' && literal[i] <= '7') {
        code = code * 8 + static_cast<std::uint32_t>(literal[i++] - '0');
        ++count;
      }
      --i;
      append_code_point(out, code);
    } else if (letter == 'N') {
      problem = "the escape \\N is not supported; write the character itself";
    } else {
      out += {'\\', letter};
    }
  }
  return out;
}

bool is_name_start(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || (byte & 0x80) != 0;
}
bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

/// With \n as line ends, and without the last one.
std::string normalized_lines(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool is_return = source[i] == '\r';
    if (is_return && i + 1 < source.size() && source[i + 1] == '\n') ++i;
    text += is_return ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : source_(normalized_lines(source)), name_(name) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = next_tag();
      add_data(tag);
      if (tag >= source_.size()) break;
      read_tag();
    }
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  std::size_t next_tag() const {
    std::size_t found = at_;
    while ((found = source_.find('{', found)) != std::string::npos) {
      if (found + 1 < source_.size() && std::string_view("%{#").find(source_[found + 1]) != std::string_view::npos)
        return found;
      ++found;
    }
    return source_.size();
  }

  /// Takes the text before a tag, without what the tag strips from its end.
  void add_data(std::size_t tag) {
    std::string data = source_.substr(at_, tag - at_);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (tag < source_.size() && sign == '-')
      data = strip(data, StripSide::right);
    else if (tag < source_.size() && sign != '+' && source_[tag + 1] != '{')
      strip_line_start(data);
    if (!data.empty()) add(TokenKind::data, data);
    advance(tag - at_);
  }

  /// lstrip_blocks: takes the blanks away that are alone on the line before a block.
  void strip_line_start(std::string& data) const {
    const std::size_t line_end = data.rfind('\n');
    const std::size_t begin = line_end == std::string::npos ? 0 : line_end + 1;
    if (begin == 0 && !line_starts_) return;
    if (strip(std::string_view(data).substr(begin), StripSide::both).empty()) data.resize(begin);
  }

  void read_tag() {
    if (rest().starts_with("{#")) return skip_comment();
    if (rest().starts_with("{%") && read_raw()) return;
    const bool is_block = rest().starts_with("{%");
    add(is_block ? TokenKind::block_begin : TokenKind::variable_begin, "");
    advance(2);
    if (rest().starts_with('-') || (is_block && rest().starts_with('+'))) advance(1);
    read_expression(is_block);
  }

  void skip_comment() {
    const Place begin = place_;
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) fail_at(name_, begin, "the comment is not closed; expected '#}'");
    end_tag(end, true);
  }

  /// Moves past the two characters at `end`, and past the white space that they strip.
  void end_tag(std::size_t end, bool trims) {
    const char sign = end > 0 ? source_[end - 1] : ' ';
    advance(end + 2 - at_);
    line_starts_ = false;
    if (sign == '-') {
      const std::string_view after = rest();
      const std::string kept = strip(after, StripSide::left);
      const std::string_view skipped = after.substr(0, after.size() - kept.size());
      line_starts_ = skipped.ends_with('\n');
      advance(skipped.size());
    } else if (trims && sign != '+' && rest().starts_with('\n')) {
      advance(1);
      line_starts_ = true;
    }
  }

  /// Reads {% raw %}…{% endraw %}; false if the tag is another.
  bool read_raw() {
    const std::size_t begin_end = tag_end("raw", at_);
    if (begin_end == std::string::npos) return false;
    const Place begin = place_;
    end_tag(begin_end, false);
    for (std::size_t found = at_; (found = source_.find("{%", found)) != std::string::npos; ++found) {
      const std::size_t end = tag_end("endraw", found);
      if (end == std::string::npos) continue;
      add_data(found);
      end_tag(end, true);
      return true;
    }
    fail_at(name_, begin, "{% raw %} is not closed; expected {% endraw %}");
  }

  /// Returns where the %} of a tag that has only this word begins, or npos.
  std::size_t tag_end(std::string_view word, std::size_t tag) const {
    std::size_t at = tag + 2;
    const auto skip_spaces = [&] {
      while (at < source_.size() && is_python_space(static_cast<unsigned char>(source_[at]))) ++at;
    };
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    skip_spaces();
    if (std::string_view(source_).substr(at, word.size()) != word) return std::string::npos;
    at += word.size();
    skip_spaces();
    const bool may_keep_line = word == "endraw";  // jinja2 knows no {% raw +%}
    if (at < source_.size() && (source_[at] == '-' || (may_keep_line && source_[at] == '+'))) ++at;
    return std::string_view(source_).substr(at, 2) == "%}" ? at : std::string::npos;
  }

  void read_expression(bool is_block) {
    const Place begin = place_;
    const std::string_view closing = is_block ? "%}" : "}}";
    std::string brackets;
    while (at_ < source_.size()) {
      if (brackets.empty() && ends_here(closing, is_block)) return;
      if (is_python_space(static_cast<unsigned char>(source_[at_]))) {
        advance(1);
        continue;
      }
      read_token(brackets);
    }
    fail_at(name_, begin, "the tag is not closed; expected '" + std::string(closing) + "'");
  }

  bool ends_here(std::string_view closing, bool is_block) {
    const std::string_view text = rest();
    const bool has_sign = text.starts_with('-') || (is_block && text.starts_with('+'));
    if (!text.substr(has_sign ? 1 : 0).starts_with(closing)) return false;
    add(is_block ? TokenKind::block_end : TokenKind::variable_end, "");
    // A sign right before the end belongs to the end; one of an earlier token doesn't.
    if (has_sign) {
      end_tag(at_ + 1, is_block);
    } else {
      advance(2);
      line_starts_ = is_block && rest().starts_with('\n');
      if (line_starts_) advance(1);
    }
    return true;
  }

  void read_token(std::string& brackets) {
    const char byte = source_[at_];
    if (is_name_start(byte)) return take(TokenKind::name, name_length());
    if (is_digit(byte)) return read_number();
    if (byte == '"' || byte == '\'') return read_string();
    static constexpr std::array<std::string_view, 8> kPairs = {"==", "!=", ">=", "<=", "//", "**", "=>", "->"};
    for (const std::string_view pair : kPairs)
      if (rest().starts_with(pair)) return take(TokenKind::symbol, 2);
    if (std::string_view("+-*/%~()[]{}<>=.:|,;").find(byte) == std::string_view::npos)
      fail_at(name_, place_, "unexpected character '" + std::string(1, byte) + "'");
    balance(byte, brackets);
    take(TokenKind::symbol, 1);
  }

  void balance(char byte, std::string& brackets) const {
    constexpr std::string_view kOpening = "([{";
    constexpr std::string_view kClosing = ")]}";
    if (kOpening.find(byte) != std::string_view::npos) brackets += byte;
    const std::size_t closed = kClosing.find(byte);
    if (closed == std::string_view::npos) return;
    if (brackets.empty() || brackets.back() != kOpening[closed])
      fail_at(name_, place_, "unexpected '" + std::string(1, byte) + "'");
    brackets.pop_back();
  }

  std::size_t name_length() const {
    std::size_t length = 0;
    while (at_ + length < source_.size() && (is_name_start(source_[at_ + length]) || is_digit(source_[at_ + length])))
      ++length;
    return length;
  }

  std::size_t digits_from(std::size_t at) const {
    std::size_t length = 0;
    while (at + length < source_.size() && (is_digit(source_[at + length]) || source_[at + length] == '_')) ++length;
    return length;
  }

  void read_number() {
    std::size_t length = digits_from(at_);
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::symbol && tokens_.back().text == ".";
    TokenKind kind = TokenKind::integer;
    if (!after_dot && at_ + length + 1 < source_.size() && source_[at_ + length] == '.' &&
        is_digit(source_[at_ + length + 1])) {
      length += 1 + digits_from(at_ + length + 1);
      kind = TokenKind::number;
    }
    std::size_t exponent = at_ + length;
    if (!after_dot && exponent + 1 < source_.size() && (source_[exponent] == 'e' || source_[exponent] == 'E')) {
      ++exponent;
      if (source_[exponent] == '+' || source_[exponent] == '-') ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        length = exponent + digits_from(exponent) - at_;
        kind = TokenKind::number;
      }
    }
    Token token{kind, source_.substr(at_, length), place_};
    std::erase(token.text, '_');
    tokens_.push_back(std::move(token));
    advance(length);
  }

  void read_string() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(name_, place_, "the string is not closed");
    std::string problem;
    std::string text = unescaped_literal(source_.substr(at_ + 1, end - at_ - 1), problem);
    if (!problem.empty()) fail_at(name_, place_, problem);
    add(TokenKind::text, std::move(text));
    advance(end + 1 - at_);
  }

  void take(TokenKind kind, std::size_t length) {
    add(kind, source_.substr(at_, length));
    advance(length);
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), place_}); }

  void advance(std::size_t count) {
    for (const std::size_t end = at_ + count; at_ < end; ++at_) {
      if (source_[at_] == '\n')
        place_ = {place_.line + 1, 1};
      else if ((static_cast<unsigned char>(source_[at_]) & 0xC0U) != 0x80)
        ++place_.column;
    }
  }

  std::string source_;
  std::string name_;
  std::size_t at_ = 0;
  Place place_{};
  bool line_starts_ = true;  // what stands next begins a line, as far as the tag before it tells
  std::vector<Token> tokens_;
};

}  // namespace

void fail_at(std::string_view template_name, Place place, const std::string& message) {
  throw core::Error(std::string(template_name) + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) +
                    ": " + message);
}

std::vector<Token> tokenize_template(std::string_view source, std::string_view name) {
  return Lexer(source, name).run();
}

}  // namespace trainctl::chat_template
