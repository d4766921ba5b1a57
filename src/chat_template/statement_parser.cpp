#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "chat_template/token_stream.h"

namespace trainctl::chat_template {
namespace {

constexpr int kDeepestBlock = 100;

template <class Node>
std::unique_ptr<const Statement> make_statement(Place place, Node node) {
  return std::make_unique<const Statement>(Statement{place, std::move(node)});
}

class StatementParser {
 public:
  StatementParser(TokenStream& tokens, Syntax& syntax) : tokens_(tokens), expressions_(tokens), syntax_(syntax) {}

  /// Reads up to a tag with one of these words, which stays. Without words: up to the template's end.
  Body body(std::span<const std::string_view> end_words) {
    if (++depth_ > kDeepestBlock)
      tokens_.fail("blocks are nested more than " + std::to_string(kDeepestBlock) + " deep");
    Body statements;
    while (!tokens_.is(TokenKind::end)) {
      const Token token = tokens_.next();
      if (token.kind == TokenKind::data) {
        statements.push_back(make_statement(token.place, Data{token.text}));
      } else if (token.kind == TokenKind::variable_begin) {
        statements.push_back(make_statement(token.place, Output{expressions_.tuple(Conditionals::allowed)}));
        tokens_.expect(TokenKind::variable_end, "'}}'");
      } else if (tokens_.is(TokenKind::name) &&
                 std::find(end_words.begin(), end_words.end(), tokens_.current().text) != end_words.end()) {
        --depth_;
        return statements;
      } else {
        statements.push_back(statement(end_words));
        tokens_.expect(TokenKind::block_end, "'%}'");
      }
    }
    if (!end_words.empty())
      tokens_.fail("the template ends inside a block; expected {% " + std::string(end_words.back()) + " %}");
    --depth_;
    return statements;
  }

 private:
  template <std::size_t count>
  Body body_until(const std::array<std::string_view, count>& words) {
    tokens_.expect(TokenKind::block_end, "'%}'");
    return body(words);
  }

  std::unique_ptr<const Statement> statement(std::span<const std::string_view> end_words) {
    const Place place = tokens_.current().place;
    if (!tokens_.is(TokenKind::name)) tokens_.fail("expected a statement after '{%', got " + tokens_.described());
    const std::string word = tokens_.current().text;
    if (word.starts_with("end") || word == "else" || word == "elif")
      tokens_.fail("unexpected '" + word + "'; expected " +
                   (end_words.empty() ? "no end of a block" : "{% " + std::string(end_words.back()) + " %}"));
    tokens_.next();
    if (word == "if") return make_statement(place, if_block());
    if (word == "for") return make_statement(place, for_block());
    if (word == "set") return set_statement(place);
    if (word == "macro") return make_statement(place, macro());
    if (word == "generation") {
      syntax_.has_generation = true;
      const int outer_loops = std::exchange(num_loops_, 0);
      Generation block{closed_body("endgeneration")};
      num_loops_ = outer_loops;
      return make_statement(place, std::move(block));
    }
    if (word == "break" || word == "continue") return loop_control(place, word);
    if (word == "with") return make_statement(place, with_block());
    if (word == "filter") {
      ExpressionPtr filters = expressions_.filters(nullptr, true);
      return make_statement(place, Capture{std::nullopt, std::move(filters), closed_body("endfilter")});
    }
    if (word == "call") return make_statement(place, call_block());
    fail_at(syntax_.name, place,
            "the statement '" + word + "' is not supported; supported are if, for, set, macro, call, with, filter, " +
                "generation, break, continue and raw");
  }

  std::unique_ptr<const Statement> loop_control(Place place, const std::string& word) {
    if (num_loops_ == 0) fail_at(syntax_.name, place, "'" + word + "' is outside a loop");
    if (word == "break") return make_statement(place, Break{});
    return make_statement(place, Continue{});
  }

  Body closed_body(std::string_view end_word) {
    Body inner = body_until(std::array{end_word});
    tokens_.next();
    return inner;
  }

  If if_block() {
    If block;
    while (true) {
      ExpressionPtr condition = expressions_.tuple(Conditionals::left_out);
      Body inner = body_until(std::array<std::string_view, 3>{"elif", "else", "endif"});
      block.branches.emplace_back(std::move(condition), std::move(inner));
      if (tokens_.skip_word("elif")) continue;
      if (tokens_.next().text == "else") block.otherwise = closed_body("endif");
      return block;
    }
  }

  For for_block() {
    For block;
    block.target = targets("in");
    tokens_.expect_word("in");
    block.items = expressions_.tuple(Conditionals::left_out);
    if (tokens_.skip_word("if")) block.condition = expressions_.expression();
    if (tokens_.is_word("recursive")) tokens_.fail("recursive loops are not supported");
    ++num_loops_;
    block.body = body_until(std::array<std::string_view, 2>{"else", "endfor"});
    --num_loops_;
    if (tokens_.next().text == "else") block.otherwise = closed_body("endfor");
    return block;
  }

  /// Reads names up to `end`: one, or several as a tuple.
  Target targets(std::string_view end, int depth = 0) {
    if (depth > kDeepestBlock) tokens_.fail("names are nested more than " + std::to_string(kDeepestBlock) + " deep");
    const bool in_parentheses = tokens_.skip_symbol("(");
    std::vector<Target> parts;
    bool is_tuple = false;
    while (true) {
      Target part;
      if (tokens_.is_symbol("(")) {
        part = targets(")", depth + 1);
      } else {
        part.name = tokens_.expect(TokenKind::name, "a variable's name").text;
        if (tokens_.skip_symbol(".")) part.member = tokens_.expect(TokenKind::name, "a member's name").text;
      }
      parts.push_back(std::move(part));
      if (!tokens_.skip_symbol(",")) break;
      is_tuple = true;
      if (tokens_.is_word(end) || tokens_.is_symbol(end) || tokens_.is_symbol(")")) break;
    }
    if (in_parentheses) tokens_.expect_symbol(")");
    if (!is_tuple) return std::move(parts[0]);
    return {.parts = std::move(parts)};
  }

  std::unique_ptr<const Statement> set_statement(Place place) {
    Target target = targets("=");
    if (tokens_.skip_symbol("=")) {
      ExpressionPtr value = expressions_.tuple(Conditionals::allowed);
      return make_statement(place, Set{std::move(target), std::move(value)});
    }
    ExpressionPtr filters;
    if (tokens_.is_symbol("|")) filters = expressions_.filters(nullptr, false);
    return make_statement(place, Capture{std::move(target), std::move(filters), closed_body("endset")});
  }

  std::shared_ptr<const MacroDefinition> macro() {
    auto definition = std::make_shared<MacroDefinition>();
    definition->name = tokens_.expect(TokenKind::name, "a macro's name").text;
    definition->parameters = parameters();
    macro_body(*definition, "endmacro");
    return definition;
  }

  void macro_body(MacroDefinition& definition, std::string_view end_word) {
    const int outer_loops = std::exchange(num_loops_, 0);
    const std::set<std::string> outer_names = expressions_.take_names();
    definition.body = closed_body(end_word);
    const std::set<std::string> names = expressions_.take_names();
    definition.takes_more_positional = names.contains("varargs");
    definition.takes_more_named = names.contains("kwargs");
    expressions_.add_names(outer_names);
    expressions_.add_names(names);
    num_loops_ = outer_loops;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      if (!all.empty()) tokens_.expect_symbol(",");
      Parameter parameter{tokens_.expect(TokenKind::name, "a parameter's name").text, nullptr};
      if (tokens_.skip_symbol("="))
        parameter.otherwise = expressions_.expression();
      else if (parameter.name == "caller")
        tokens_.fail("the parameter 'caller' has no default");
      else if (!all.empty() && all.back().otherwise)
        tokens_.fail("a parameter without a default follows one with a default");
      all.push_back(std::move(parameter));
    }
    tokens_.expect_symbol(")");
    return all;
  }

  CallBlock call_block() {
    auto caller = std::make_shared<MacroDefinition>();
    caller->name = "caller";
    if (tokens_.is_symbol("(")) caller->parameters = parameters();
    ExpressionPtr call = expressions_.expression();
    if (!std::holds_alternative<Call>(call->node)) fail_at(syntax_.name, call->place, "expected a call after 'call'");
    macro_body(*caller, "endcall");
    return {std::move(call), std::move(caller)};
  }

  With with_block() {
    With block;
    while (!tokens_.is(TokenKind::block_end)) {
      if (!block.values.empty()) tokens_.expect_symbol(",");
      Target target{.name = tokens_.expect(TokenKind::name, "a variable's name").text};
      tokens_.expect_symbol("=");
      block.values.emplace_back(std::move(target), expressions_.expression());
    }
    block.body = closed_body("endwith");
    return block;
  }

  TokenStream& tokens_;
  ExpressionParser expressions_;
  Syntax& syntax_;
  int num_loops_ = 0;
  int depth_ = 0;
};

}  // namespace

Syntax parse(std::string_view source, const std::string& name) {
  Syntax syntax{.name = name, .body = {}, .has_generation = false};
  TokenStream tokens(tokenize_template(source, name), name);
  syntax.body = StatementParser(tokens, syntax).body({});
  return syntax;
}

}  // namespace trainctl::chat_template
