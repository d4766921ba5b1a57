// Values of expressions, and the scopes that names are looked up in.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat_template/chat_template.h"
#include "chat_template/syntax.h"
#include "chat_template/value.h"

namespace trainctl::chat_template {

struct Scope;
using ScopePtr = std::shared_ptr<Scope>;

/// Names of a block: a loop's turn, a macro's call, or the whole template.
struct Scope {
  ScopePtr parent{};
  std::vector<std::pair<std::string, Value>> values{};

  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);
};

class Evaluator {
 public:
  explicit Evaluator(std::string template_name) : name_(std::move(template_name)) {}

  /// A mistake is an Error at the expression's place.
  Value evaluate(const Expression& expression, const ScopePtr& scope);
  Arguments arguments(const CallArguments& given, const ScopePtr& scope);
  /// Evaluates the filters of a {% filter %} or {% set %} block, whose text is `text`.
  Value filtered(const Expression& filters, std::string text, const ScopePtr& scope);

 private:
  struct Visitor;
  Value name(const Name& name, const ScopePtr& scope) const;
  Value binary(const BinaryOperation& operation, const ScopePtr& scope);
  bool comparison(const Comparison& comparison, const ScopePtr& scope);
  Value call(const Call& call, const ScopePtr& scope);
  Value optional(const ExpressionPtr& expression, const ScopePtr& scope);

  std::string name_;
  int depth_ = 0;
  const std::string* block_text_ = nullptr;  // of the block whose filters are evaluated
};

}  // namespace trainctl::chat_template
