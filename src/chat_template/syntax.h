// A template as a tree of statements and expressions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat_template/lexer.h"
#include "chat_template/value.h"

namespace trainctl::chat_template {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

/// Arguments as written.
struct CallArguments {
  std::vector<ExpressionPtr> positional{};
  std::vector<std::pair<std::string, ExpressionPtr>> named{};
  ExpressionPtr more_positional{};  // *values; null: none
  ExpressionPtr more_named{};       // **values
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct SequenceLiteral {
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct MappingLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
/// not, -, +.
struct UnaryOperation {
  std::string symbol;
  ExpressionPtr operand;
};
/// and, or, +, -, *, /, //, %, **, ~.
struct BinaryOperation {
  std::string symbol;
  ExpressionPtr left;
  ExpressionPtr right;
};
/// a < b <= c: each operand is compared with the one before it.
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> rest;  // ==, !=, <, <=, >, >=, in, not in
};
struct Conditional {
  ExpressionPtr condition;
  ExpressionPtr if_true;
  ExpressionPtr if_false;  // null: undefined
};
struct Member {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object;
  ExpressionPtr key;
};
struct Slice {
  ExpressionPtr object;
  ExpressionPtr begin;  // each may be null
  ExpressionPtr end;
  ExpressionPtr step;
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExpressionPtr operand;  // null: what a {% filter %} or {% set %} block holds
  std::string name;
  CallArguments arguments;
};
struct Test {
  ExpressionPtr operand;
  std::string name;
  CallArguments arguments;
};

struct Expression {
  Place place;
  std::variant<Constant, Name, SequenceLiteral, MappingLiteral, UnaryOperation, BinaryOperation, Comparison,
               Conditional, Member, Item, Slice, Call, Filter, Test>
      node;
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

/// What is assigned: a name, a namespace's member, or several of them in a tuple.
struct Target {
  std::string name{};
  std::string member{};
  std::vector<Target> parts{};
};

struct Data {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // null: all
  Body body;
  Body otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
/// {% set x %}…{% endset %} and {% filter f %}…{% endfilter %}, whose text is printed.
struct Capture {
  std::optional<Target> target;
  ExpressionPtr filters;  // null: none
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};
struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // null: undefined
};
struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool takes_more_positional = false;  // its body uses varargs
  bool takes_more_named = false;       // its body uses kwargs
};
/// {% call f() %}…{% endcall %}: the body is f's caller().
struct CallBlock {
  ExpressionPtr call;
  std::shared_ptr<const MacroDefinition> caller;
};
struct Generation {
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  Place place;
  std::variant<Data, Output, If, For, Set, Capture, With, std::shared_ptr<const MacroDefinition>, CallBlock, Generation,
               Break, Continue>
      node;
};

/// The tree of a template, and whether it marks the assistant's text with {% generation %}.
struct Syntax {
  std::string name;
  Body body;
  bool has_generation = false;
};

Syntax parse(std::string_view source, const std::string& name);

}  // namespace trainctl::chat_template
