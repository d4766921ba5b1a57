// Text of a template as tokens, with the whitespace rules of trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::chat_template {

/// A place in the template's text, from 1.
struct Place {
  int line = 1;
  int column = 1;
};

enum class TokenKind {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  text,
  integer,
  number,
  symbol,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text{};  // of data, names and symbols: as written; of strings: without quotes and escapes
  Place place{};
};

/// An Error of the template, at its place: `chat_template.jinja:3:14: …`.
[[noreturn]] void fail_at(std::string_view template_name, Place place, const std::string& message);

/// Ends with one token of kind `end`. `name` is the template's, for errors.
std::vector<Token> tokenize_template(std::string_view source, std::string_view name);

}  // namespace trainctl::chat_template
