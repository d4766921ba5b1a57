// The tokens of a template as its parsers read them, and the parser of expressions.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat_template/syntax.h"

namespace trainctl::chat_template {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, std::string name) : tokens_(std::move(tokens)), name_(std::move(name)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_symbol(std::string_view symbol) const { return is(TokenKind::symbol) && current().text == symbol; }
  bool is_word(std::string_view word) const { return is(TokenKind::name) && current().text == word; }
  /// Takes the token if it is this one.
  bool skip_symbol(std::string_view symbol);
  bool skip_word(std::string_view word);
  Token expect(TokenKind kind, std::string_view what);
  void expect_symbol(std::string_view symbol);
  void expect_word(std::string_view word);
  [[noreturn]] void fail(const std::string& message) const { fail_at(name_, current().place, message); }
  /// The current token, for errors: `'endfor'`, `the end of the template`.
  std::string described() const;

 private:
  std::vector<Token> tokens_;
  std::string name_;
  std::size_t at_ = 0;
};

/// Whether a tuple's items may be `a if b else c`. They may not where an `if` follows, as in {% for %}.
enum class Conditionals { allowed, left_out };

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr expression() { return guarded(&ExpressionParser::conditional); }
  /// One expression, or a tuple without parentheses.
  ExpressionPtr tuple(Conditionals conditionals);
  /// `name | filter | …`, from the first `|` or filter's name on, on what `operand` gives.
  ExpressionPtr filters(ExpressionPtr operand, bool starts_with_name);
  /// Returns the names that were read since the last call, and forgets them.
  std::set<std::string> take_names() { return std::exchange(names_used_, {}); }
  void add_names(const std::set<std::string>& names) { names_used_.insert(names.begin(), names.end()); }

 private:
  ExpressionPtr guarded(ExpressionPtr (ExpressionParser::*parser)());
  /// Counts an operator that takes what is before it: each makes the tree one level deeper.
  void count_link();
  ExpressionPtr conditional();
  ExpressionPtr any_of();
  ExpressionPtr all_of();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr binary(int level);
  ExpressionPtr unary();
  ExpressionPtr plain_unary();
  ExpressionPtr primary();
  ExpressionPtr literal();
  ExpressionPtr parenthesized();
  ExpressionPtr list();
  ExpressionPtr mapping();
  ExpressionPtr postfix(ExpressionPtr operand);
  ExpressionPtr member(ExpressionPtr object);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr filter_or_test(ExpressionPtr operand);
  ExpressionPtr one_filter(ExpressionPtr operand);
  ExpressionPtr test(ExpressionPtr operand);
  CallArguments arguments();
  void one_argument(CallArguments& given);

  TokenStream& tokens_;
  std::set<std::string> names_used_;
  int depth_ = 0;
  int links_ = 0;  // of the expression so far
};

}  // namespace trainctl::chat_template
