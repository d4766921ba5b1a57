// The grammar is that of jinja2.parser.Parser, level by level.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>

#include "chat_template/token_stream.h"

namespace trainctl::chat_template {
namespace {

constexpr int kDeepest = 200;
constexpr int kMostLinks = 5'000;  // operators of an expression that take what is before them

template <class Node>
ExpressionPtr make_expression(Place place, Node node) {
  return std::make_unique<const Expression>(Expression{place, std::move(node)});
}

/// Binary operators, from the loosest to the tightest.
constexpr std::array<std::array<std::string_view, 4>, 4> kBinary = {
    {{"+", "-", "", ""}, {"~", "", "", ""}, {"*", "/", "//", "%"}, {"**", "", "", ""}}};

}  // namespace

Token TokenStream::next() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}
bool TokenStream::skip_symbol(std::string_view symbol) {
  const bool found = is_symbol(symbol);
  if (found) next();
  return found;
}
bool TokenStream::skip_word(std::string_view word) {
  const bool found = is_word(word);
  if (found) next();
  return found;
}
Token TokenStream::expect(TokenKind kind, std::string_view what) {
  if (!is(kind)) fail("expected " + std::string(what) + ", got " + described());
  return next();
}
void TokenStream::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail("expected '" + std::string(symbol) + "', got " + described());
}
void TokenStream::expect_word(std::string_view word) {
  if (!skip_word(word)) fail("expected '" + std::string(word) + "', got " + described());
}
std::string TokenStream::described() const {
  static const std::map<TokenKind, std::string> kNames = {{TokenKind::end, "the end of the template"},
                                                          {TokenKind::data, "text"},
                                                          {TokenKind::block_begin, "'{%'"},
                                                          {TokenKind::block_end, "'%}'"},
                                                          {TokenKind::variable_begin, "'{{'"},
                                                          {TokenKind::variable_end, "'}}'"}};
  const auto found = kNames.find(current().kind);
  return found == kNames.end() ? "'" + current().text + "'" : found->second;
}

ExpressionPtr ExpressionParser::guarded(ExpressionPtr (ExpressionParser::*parser)()) {
  if (++depth_ > kDeepest) tokens_.fail("the expression is nested more than " + std::to_string(kDeepest) + " deep");
  ExpressionPtr parsed = (this->*parser)();
  if (--depth_ == 0) links_ = 0;
  return parsed;
}

void ExpressionParser::count_link() {
  if (++links_ > kMostLinks)
    tokens_.fail("the expression has more than " + std::to_string(kMostLinks) + " operators and filters");
}

ExpressionPtr ExpressionParser::tuple(Conditionals conditionals) {
  const auto item = [&] { return conditionals == Conditionals::allowed ? expression() : any_of(); };
  const auto ends = [&] {
    return tokens_.is(TokenKind::variable_end) || tokens_.is(TokenKind::block_end) || tokens_.is_symbol(")");
  };
  const Place place = tokens_.current().place;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!ends()) {
    items.push_back(item());
    if (!tokens_.is_symbol(",")) break;
    tokens_.next();
    is_tuple = true;
  }
  if (items.empty()) tokens_.fail("expected an expression, got " + tokens_.described());
  if (!is_tuple) return std::move(items[0]);
  return make_expression(place, SequenceLiteral{std::move(items), true});
}

ExpressionPtr ExpressionParser::conditional() {
  ExpressionPtr value = any_of();
  while (tokens_.is_word("if")) {
    count_link();
    const Place place = tokens_.next().place;
    ExpressionPtr condition = any_of();
    ExpressionPtr otherwise;
    if (tokens_.skip_word("else")) otherwise = guarded(&ExpressionParser::conditional);
    value = make_expression(place, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr ExpressionParser::any_of() {
  ExpressionPtr left = all_of();
  while (tokens_.is_word("or")) {
    count_link();
    const Place place = tokens_.next().place;
    left = make_expression(place, BinaryOperation{"or", std::move(left), all_of()});
  }
  return left;
}

ExpressionPtr ExpressionParser::all_of() {
  ExpressionPtr left = negation();
  while (tokens_.is_word("and")) {
    count_link();
    const Place place = tokens_.next().place;
    left = make_expression(place, BinaryOperation{"and", std::move(left), negation()});
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!tokens_.is_word("not")) return comparison();
  const Place place = tokens_.next().place;
  return make_expression(place, UnaryOperation{"not", guarded(&ExpressionParser::negation)});
}

ExpressionPtr ExpressionParser::comparison() {
  static constexpr std::array<std::string_view, 6> kSymbols = {"==", "!=", "<", "<=", ">", ">="};
  const Place place = tokens_.current().place;
  ExpressionPtr first = binary(0);
  std::vector<std::pair<std::string, ExpressionPtr>> rest;
  while (true) {
    std::string symbol;
    if (tokens_.is(TokenKind::symbol) &&
        std::find(kSymbols.begin(), kSymbols.end(), tokens_.current().text) != kSymbols.end())
      symbol = tokens_.next().text;
    else if (tokens_.skip_word("in"))
      symbol = "in";
    else if (tokens_.is_word("not") && tokens_.ahead().kind == TokenKind::name && tokens_.ahead().text == "in") {
      tokens_.next();
      tokens_.next();
      symbol = "not in";
    }
    if (symbol.empty()) break;
    rest.emplace_back(std::move(symbol), binary(0));
  }
  if (rest.empty()) return first;
  return make_expression(place, Comparison{std::move(first), std::move(rest)});
}

ExpressionPtr ExpressionParser::binary(int level) {
  if (level == static_cast<int>(kBinary.size())) return guarded(&ExpressionParser::unary);
  ExpressionPtr left = binary(level + 1);
  const std::span<const std::string_view> symbols = kBinary[static_cast<std::size_t>(level)];
  while (tokens_.is(TokenKind::symbol) &&
         std::find(symbols.begin(), symbols.end(), tokens_.current().text) != symbols.end()) {
    count_link();
    const Token symbol = tokens_.next();
    left = make_expression(symbol.place, BinaryOperation{symbol.text, std::move(left), binary(level + 1)});
  }
  return left;
}

/// A sign applies before filters: -3|abs is 3, as (-3)|abs.
ExpressionPtr ExpressionParser::unary() {
  return filter_or_test(plain_unary());
}

ExpressionPtr ExpressionParser::plain_unary() {
  if (!tokens_.is_symbol("-") && !tokens_.is_symbol("+")) return postfix(primary());
  const Token sign = tokens_.next();
  return postfix(make_expression(sign.place, UnaryOperation{sign.text, guarded(&ExpressionParser::plain_unary)}));
}

ExpressionPtr ExpressionParser::primary() {
  if (tokens_.is_symbol("(")) return parenthesized();
  if (tokens_.is_symbol("[")) return list();
  if (tokens_.is_symbol("{")) return mapping();
  if (!tokens_.is(TokenKind::name)) return literal();
  const Token name = tokens_.next();
  if (name.text == "true" || name.text == "True") return make_expression(name.place, Constant{true});
  if (name.text == "false" || name.text == "False") return make_expression(name.place, Constant{false});
  if (name.text == "none" || name.text == "None") return make_expression(name.place, Constant{None{}});
  names_used_.insert(name.text);
  return make_expression(name.place, Name{name.text});
}

ExpressionPtr ExpressionParser::literal() {
  const Token token = tokens_.current();
  const char* const end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::text) {
    std::string text;  // adjacent literals are one
    while (tokens_.is(TokenKind::text)) text += tokens_.next().text;
    return make_expression(token.place, Constant{Value::text(std::move(text))});
  }
  if (token.kind == TokenKind::integer) {
    std::int64_t integer = 0;
    if (std::from_chars(token.text.data(), end, integer).ec != std::errc()) tokens_.fail("the integer is too large");
    tokens_.next();
    return make_expression(token.place, Constant{integer});
  }
  if (token.kind == TokenKind::number) {
    double number = 0;
    if (std::from_chars(token.text.data(), end, number).ec != std::errc()) tokens_.fail("the number is out of range");
    tokens_.next();
    return make_expression(token.place, Constant{number});
  }
  tokens_.fail("expected an expression, got " + tokens_.described());
}

ExpressionPtr ExpressionParser::parenthesized() {
  const Place place = tokens_.next().place;
  if (tokens_.skip_symbol(")")) return make_expression(place, SequenceLiteral{{}, true});
  ExpressionPtr inner = tuple(Conditionals::allowed);
  tokens_.expect_symbol(")");
  return inner;
}

ExpressionPtr ExpressionParser::list() {
  const Place place = tokens_.next().place;
  std::vector<ExpressionPtr> items;
  while (!tokens_.is_symbol("]")) {
    if (!items.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("]")) break;
    items.push_back(expression());
  }
  tokens_.expect_symbol("]");
  return make_expression(place, SequenceLiteral{std::move(items), false});
}

ExpressionPtr ExpressionParser::mapping() {
  const Place place = tokens_.next().place;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
  while (!tokens_.is_symbol("}")) {
    if (!items.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("}")) break;
    ExpressionPtr key = expression();
    tokens_.expect_symbol(":");
    items.emplace_back(std::move(key), expression());
  }
  tokens_.expect_symbol("}");
  return make_expression(place, MappingLiteral{std::move(items)});
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr operand) {
  while (true) {
    if (tokens_.is_symbol(".") || tokens_.is_symbol("[") || tokens_.is_symbol("(")) count_link();
    const Place place = tokens_.current().place;
    if (tokens_.is_symbol("."))
      operand = member(std::move(operand));
    else if (tokens_.is_symbol("["))
      operand = subscript(std::move(operand));
    else if (tokens_.is_symbol("("))
      operand = make_expression(place, Call{std::move(operand), arguments()});
    else
      return operand;
  }
}

ExpressionPtr ExpressionParser::member(ExpressionPtr object) {
  const Place place = tokens_.next().place;
  if (tokens_.is(TokenKind::integer)) return make_expression(place, Item{std::move(object), literal()});
  return make_expression(place, Member{std::move(object), tokens_.expect(TokenKind::name, "a member's name").text});
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const Place place = tokens_.next().place;
  std::array<ExpressionPtr, 3> bounds;
  std::size_t count = 0;
  bool is_slice = false;
  while (!tokens_.is_symbol("]")) {
    if (tokens_.skip_symbol(":")) {
      is_slice = true;
      if (++count > 2) tokens_.fail("a slice has at most three bounds");
    } else if (bounds[count]) {
      tokens_.fail("expected ']', got " + tokens_.described());
    } else {
      bounds[count] = expression();
    }
  }
  tokens_.expect_symbol("]");
  if (is_slice)
    return make_expression(place,
                           Slice{std::move(object), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])});
  if (!bounds[0]) tokens_.fail("expected an index between '[' and ']'");
  return make_expression(place, Item{std::move(object), std::move(bounds[0])});
}

ExpressionPtr ExpressionParser::filter_or_test(ExpressionPtr operand) {
  while (true) {
    const Place place = tokens_.current().place;
    if (tokens_.skip_symbol("|"))
      operand = one_filter(std::move(operand));
    else if (tokens_.skip_word("is"))
      operand = test(std::move(operand));
    else if (tokens_.is_symbol("(")) {
      count_link();
      operand = make_expression(place, Call{std::move(operand), arguments()});
    } else
      return operand;
  }
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr operand, bool starts_with_name) {
  if (starts_with_name) operand = one_filter(std::move(operand));
  while (tokens_.skip_symbol("|")) operand = one_filter(std::move(operand));
  return operand;
}

ExpressionPtr ExpressionParser::one_filter(ExpressionPtr operand) {
  count_link();
  const Token name = tokens_.expect(TokenKind::name, "a filter's name");
  CallArguments given;
  if (tokens_.is_symbol("(")) given = arguments();
  return make_expression(name.place, Filter{std::move(operand), name.text, std::move(given)});
}

ExpressionPtr ExpressionParser::test(ExpressionPtr operand) {
  count_link();
  const bool is_negated = tokens_.skip_word("not");
  const Token name = tokens_.expect(TokenKind::name, "a test's name");
  CallArguments given;
  const Token& next = tokens_.current();
  const bool starts_argument = (next.kind == TokenKind::name && next.text != "else" && next.text != "or" &&
                                next.text != "and" && next.text != "if") ||
                               next.kind == TokenKind::text || next.kind == TokenKind::integer ||
                               next.kind == TokenKind::number || tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (tokens_.is_symbol("("))
    given = arguments();
  else if (tokens_.is_word("is"))
    tokens_.fail("tests can't be chained with 'is'");
  else if (starts_argument)
    given.positional.push_back(postfix(primary()));
  ExpressionPtr result = make_expression(name.place, Test{std::move(operand), name.text, std::move(given)});
  return is_negated ? make_expression(name.place, UnaryOperation{"not", std::move(result)}) : std::move(result);
}

CallArguments ExpressionParser::arguments() {
  CallArguments given;
  tokens_.expect_symbol("(");
  bool is_first = true;
  while (!tokens_.is_symbol(")")) {
    if (!is_first) tokens_.expect_symbol(",");
    is_first = false;
    if (!tokens_.is_symbol(")")) one_argument(given);
  }
  tokens_.expect_symbol(")");
  return given;
}

void ExpressionParser::one_argument(CallArguments& given) {
  if (given.more_named) tokens_.fail("no argument can follow '**'");
  if (tokens_.skip_symbol("**")) {
    given.more_named = expression();
  } else if (tokens_.skip_symbol("*")) {
    if (given.more_positional) tokens_.fail("only one argument can have '*'");
    given.more_positional = expression();
  } else if (tokens_.is(TokenKind::name) && tokens_.ahead().kind == TokenKind::symbol && tokens_.ahead().text == "=") {
    std::string name = tokens_.next().text;
    tokens_.next();
    given.named.emplace_back(std::move(name), expression());
  } else {
    if (!given.named.empty() || given.more_positional) tokens_.fail("a positional argument can't follow a named one");
    given.positional.push_back(expression());
  }
}

}  // namespace trainctl::chat_template
