#include "chat_template/evaluator.h"

#include <algorithm>

#include "chat_template/filters.h"
#include "chat_template/members.h"
#include "chat_template/operations.h"
#include "core/overloaded.h"

namespace trainctl::chat_template {
namespace {

constexpr int kDeepestEvaluation = 1000;

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get())
    for (const auto& [known, value] : scope->values)
      if (known == name) return &value;
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, old] : values)
    if (known == name) {
      old = std::move(value);
      return;
    }
  values.emplace_back(name, std::move(value));
}

struct Evaluator::Visitor {
  Evaluator& self;
  const ScopePtr& scope;

  Value operator()(const Constant& node) const { return node.value; }
  Value operator()(const Name& node) const { return self.name(node, scope); }
  Value operator()(const SequenceLiteral& node) const {
    std::vector<Value> items;
    for (const ExpressionPtr& item : node.items) items.push_back(self.evaluate(*item, scope));
    return node.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }
  Value operator()(const MappingLiteral& node) const {
    Mapping mapping;
    for (const auto& [key, value] : node.items) {
      const Value name = self.evaluate(*key, scope);
      check_hashable(name);
      mapping.set(name, self.evaluate(*value, scope));
    }
    return Value::mapping(std::move(mapping));
  }
  Value operator()(const UnaryOperation& node) const {
    const Value operand = self.evaluate(*node.operand, scope);
    if (node.symbol == "not") return !operand.truth();
    return node.symbol == "-" ? negated(operand) : binary_operation("+", std::int64_t{0}, operand);
  }
  Value operator()(const BinaryOperation& node) const { return self.binary(node, scope); }
  Value operator()(const Comparison& node) const { return self.comparison(node, scope); }
  Value operator()(const Conditional& node) const {
    if (self.evaluate(*node.condition, scope).truth()) return self.evaluate(*node.if_true, scope);
    if (node.if_false) return self.evaluate(*node.if_false, scope);
    return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
  }
  Value operator()(const Member& node) const { return member_of(self.evaluate(*node.object, scope), node.name); }
  Value operator()(const Item& node) const {
    const Value object = self.evaluate(*node.object, scope);
    const Value key = self.evaluate(*node.key, scope);
    return item_or_member(object, key);
  }
  Value operator()(const Slice& node) const {
    return slice_of(self.evaluate(*node.object, scope), self.optional(node.begin, scope),
                    self.optional(node.end, scope), self.optional(node.step, scope));
  }
  Value operator()(const Call& node) const { return self.call(node, scope); }
  Value operator()(const Filter& node) const {
    const Value operand = node.operand ? self.evaluate(*node.operand, scope) : Value::text(*self.block_text_);
    return apply_filter(node.name, operand, self.arguments(node.arguments, scope));
  }
  Value operator()(const Test& node) const {
    return apply_test(node.name, self.evaluate(*node.operand, scope), self.arguments(node.arguments, scope));
  }
};

Value Evaluator::evaluate(const Expression& expression, const ScopePtr& scope) {
  try {
    if (depth_ >= kDeepestEvaluation) throw TemplateProblem("the template's calls are nested too deep");
    ++depth_;
    Value value = std::visit(Visitor{*this, scope}, expression.node);
    --depth_;
    return value;
  } catch (const TemplateProblem& problem) {
    fail_at(name_, expression.place, problem.what());
  }
}

Value Evaluator::optional(const ExpressionPtr& expression, const ScopePtr& scope) {
  return expression ? evaluate(*expression, scope) : Value(None{});
}

Value Evaluator::name(const Name& name, const ScopePtr& scope) const {
  const Value* const found = scope->find(name.name);
  return found != nullptr ? *found : Value::undefined("'" + name.name + "' is undefined");
}

Value Evaluator::binary(const BinaryOperation& operation, const ScopePtr& scope) {
  Value left = evaluate(*operation.left, scope);
  if (operation.symbol == "and") return left.truth() ? evaluate(*operation.right, scope) : left;
  if (operation.symbol == "or") return left.truth() ? left : evaluate(*operation.right, scope);
  const Value right = evaluate(*operation.right, scope);
  if (operation.symbol == "~") return checked_text(left.printed() + right.printed());
  return binary_operation(operation.symbol, left, right);
}

bool Evaluator::comparison(const Comparison& comparison, const ScopePtr& scope) {
  Value left = evaluate(*comparison.first, scope);
  for (const auto& [symbol, operand] : comparison.rest) {
    Value right = evaluate(*operand, scope);
    if (!compare(symbol, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::call(const Call& call, const ScopePtr& scope) {
  const Value callee = evaluate(*call.callee, scope);
  const Arguments given = arguments(call.arguments, scope);
  if (const auto* undefined = callee.get_if<Undefined>()) throw TemplateProblem(undefined->what);
  const std::shared_ptr<Object> object = callee.as_object();
  if (!object || !object->is_callable())
    throw TemplateProblem("'" + std::string(callee.type_name()) + "' object is not callable");
  return object->call(given);
}

Arguments Evaluator::arguments(const CallArguments& given, const ScopePtr& scope) {
  Arguments values;
  for (const ExpressionPtr& one : given.positional) values.positional.push_back(evaluate(*one, scope));
  for (const auto& [name, one] : given.named) values.named.emplace_back(name, evaluate(*one, scope));
  if (given.more_positional)
    for (Value& one : items_of(evaluate(*given.more_positional, scope))) values.positional.push_back(std::move(one));
  if (given.more_named) {
    const Value more = evaluate(*given.more_named, scope);
    if (more.as_mapping() == nullptr) throw TemplateProblem("the argument after '**' must be a mapping");
    for (const auto& [name, value] : more.as_mapping()->items) values.named.emplace_back(name.printed(), value);
  }
  return values;
}

Value Evaluator::filtered(const Expression& filters, std::string text, const ScopePtr& scope) {
  const std::string* const outer = std::exchange(block_text_, &text);
  Value value = evaluate(filters, scope);
  block_text_ = outer;
  return value;
}

}  // namespace trainctl::chat_template
