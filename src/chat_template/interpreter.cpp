#include "chat_template/interpreter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat_template/objects.h"
#include "chat_template/operations.h"
#include "core/overloaded.h"

namespace trainctl::chat_template {
namespace {

constexpr int kDeepestMacro = 200;

ScopePtr inner_scope(const ScopePtr& parent) {
  return std::make_shared<Scope>(Scope{.parent = parent});
}

/// A macro with the scope that it is defined in. The scope holds the macro, so the macro does not own it.
class Macro final : public Object {
 public:
  Macro(Interpreter& interpreter, std::shared_ptr<const MacroDefinition> definition, const ScopePtr& scope)
      : interpreter_(interpreter), definition_(std::move(definition)), scope_(scope) {}
  std::string_view type_name() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  std::optional<Value> member(std::string_view name) const override {
    if (name == "name") return Value::text(definition_->name);
    return std::nullopt;
  }
  Value call(const Arguments& arguments) override {
    const ScopePtr outer = scope_.lock();
    if (!outer)
      throw TemplateProblem("macro '" + definition_->name + "' is called outside of the block that defines it");
    const ScopePtr scope = inner_scope(outer);
    bind(arguments, scope);
    return checked_text(interpreter_.run_macro(*definition_, scope));
  }

 private:
  void bind(const Arguments& arguments, const ScopePtr& scope) const {
    const std::vector<Parameter>& parameters = definition_->parameters;
    std::vector<Value> more;
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
      if (i < parameters.size())
        scope->set(parameters[i].name, arguments.positional[i]);
      else
        more.push_back(arguments.positional[i]);
    }
    const auto is_parameter = [&](std::string_view name) {
      return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& one) { return one.name == name; });
    };
    // Only a call block gives a caller; a variable outside of that name is none.
    if (!is_parameter("caller")) scope->set("caller", Value::undefined("no caller defined"));
    Mapping others;
    for (const auto& [name, value] : arguments.named) {
      for (std::size_t i = 0; i < std::min(parameters.size(), arguments.positional.size()); ++i)
        if (parameters[i].name == name)
          throw TemplateProblem("macro '" + definition_->name + "' got the argument '" + name + "' twice");
      if (name == "caller" || is_parameter(name))
        scope->set(name, value);
      else
        others.set(Value::text(name), value);
    }
    if (!more.empty() && !definition_->takes_more_positional)
      throw TemplateProblem("macro '" + definition_->name + "' takes at most " + std::to_string(parameters.size()) +
                            " arguments, got " + std::to_string(arguments.positional.size()));
    if (!others.items.empty() && !definition_->takes_more_named)
      throw TemplateProblem("macro '" + definition_->name + "' has no argument " + others.items[0].first.represented());
    for (std::size_t i = 0; i < parameters.size(); ++i) set_default(i, scope);
    scope->set("varargs", Value::tuple(std::move(more)));
    scope->set("kwargs", Value::mapping(std::move(others)));
  }
  void set_default(std::size_t index, const ScopePtr& scope) const {
    const Parameter& parameter = definition_->parameters[index];
    const bool is_given = std::any_of(scope->values.begin(), scope->values.end(),
                                      [&](const auto& one) { return one.first == parameter.name; });
    if (is_given) return;
    scope->set(parameter.name, parameter.otherwise
                                   ? interpreter_.evaluator().evaluate(*parameter.otherwise, scope)
                                   : Value::undefined("parameter '" + parameter.name + "' was not provided"));
  }

  Interpreter& interpreter_;
  std::shared_ptr<const MacroDefinition> definition_;
  std::weak_ptr<Scope> scope_;
};

}  // namespace

Rendered Interpreter::run(const nlohmann::ordered_json& variables) {
  const auto globals = std::make_shared<Scope>();
  define_globals(*globals, options_);
  for (const auto& [name, value] : variables.items()) globals->set(name, Value::from_json(value));
  run_body(syntax_.body, inner_scope(globals));
  return {.text = std::move(root_text_), .generated = std::move(generated_), .printed = std::move(printed_)};
}

std::string Interpreter::run_macro(const MacroDefinition& macro, const ScopePtr& scope) {
  if (depth_ >= kDeepestMacro)
    throw TemplateProblem("macros are nested more than " + std::to_string(kDeepestMacro) + " deep; does '" +
                          macro.name + "' call itself without end?");
  ++depth_;
  std::string text = captured(macro.body, scope, nullptr);
  --depth_;
  return text;
}

void Interpreter::print(std::string_view text) {
  *output_ += text;
  check_size(output_->size());
}

std::string Interpreter::captured(const Body& body, const ScopePtr& scope, Flow* flow) {
  std::string text;
  std::string* const outer = std::exchange(output_, &text);
  const Flow end = run_body(body, scope);
  output_ = outer;
  if (flow != nullptr) *flow = end;
  return text;
}

Interpreter::Flow Interpreter::run_body(const Body& body, const ScopePtr& scope) {
  for (const auto& statement : body) {
    Flow flow = Flow::on;
    const std::size_t begin = root_text_.size();
    try {
      flow = run_statement(*statement, scope);
      // A block's statements have noted their parts themselves.
      const std::size_t noted = printed_.empty() ? 0 : printed_.back().end;
      if (output_ == &root_text_ && root_text_.size() > noted)
        printed_.push_back({std::max(begin, noted), root_text_.size(), statement->place.line});
    } catch (const TemplateProblem& problem) {
      fail_at(syntax_.name, statement->place, problem.what());
    }
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement, const ScopePtr& scope) {
  return std::visit(
      core::Overloaded{
          [&](const Data& node) { return print(node.text), Flow::on; },
          [&](const Output& node) { return print(evaluator_.evaluate(*node.value, scope).printed()), Flow::on; },
          [&](const If& node) { return run_if(node, scope); },
          [&](const For& node) { return run_for(node, scope); },
          [&](const Set& node) {
            return assign(node.target, evaluator_.evaluate(*node.value, scope), scope), Flow::on;
          },
          [&](const Capture& node) { return run_capture(node, scope); },
          [&](const With& node) {
            const ScopePtr inner = inner_scope(scope);
            for (const auto& [target, value] : node.values) assign(target, evaluator_.evaluate(*value, scope), inner);
            return run_body(node.body, inner);
          },
          [&](const std::shared_ptr<const MacroDefinition>& node) { return define_macro(node, scope), Flow::on; },
          [&](const CallBlock& node) { return run_call_block(node, scope), Flow::on; },
          [&](const Generation& node) { return run_generation(node, statement.place, scope), Flow::on; },
          [&](const Break&) { return Flow::break_loop; },
          [&](const Continue&) { return Flow::next_item; },
      },
      statement.node);
}

Interpreter::Flow Interpreter::run_if(const If& block, const ScopePtr& scope) {
  for (const auto& [condition, body] : block.branches)
    if (evaluator_.evaluate(*condition, scope).truth()) return run_body(body, scope);
  return run_body(block.otherwise, scope);
}

std::vector<Value> Interpreter::loop_items(const For& block, const ScopePtr& scope) {
  std::vector<Value> items = items_of(evaluator_.evaluate(*block.items, scope));
  if (!block.condition) return items;
  std::vector<Value> chosen;
  for (Value& item : items) {
    const ScopePtr inner = inner_scope(scope);
    assign(block.target, item, inner);
    if (evaluator_.evaluate(*block.condition, inner).truth()) chosen.push_back(std::move(item));
  }
  return chosen;
}

Interpreter::Flow Interpreter::run_for(const For& block, const ScopePtr& scope) {
  const std::vector<Value> items = loop_items(block, scope);
  bool is_completed = false;
  const auto loop = std::make_shared<Loop>(items, 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    loop->move_to(i);
    const ScopePtr inner = inner_scope(scope);
    inner->set("loop", std::static_pointer_cast<Object>(loop));
    assign(block.target, items[i], inner);
    const Flow flow = run_body(block.body, inner);
    is_completed = is_completed || flow == Flow::on;
    if (flow == Flow::break_loop) break;
  }
  // `else` also runs if each turn ended by break or continue, as in jinja2.
  return is_completed ? Flow::on : run_body(block.otherwise, scope);
}

Interpreter::Flow Interpreter::run_capture(const Capture& block, const ScopePtr& scope) {
  Flow flow = Flow::on;
  std::string text = captured(block.body, inner_scope(scope), &flow);
  const Value value =
      block.filters ? evaluator_.filtered(*block.filters, std::move(text), scope) : checked_text(std::move(text));
  if (block.target)
    assign(*block.target, value, scope);
  else
    print(value.printed());
  return flow;
}

void Interpreter::run_generation(const Generation& block, Place place, const ScopePtr& scope) {
  const bool is_root = output_ == &root_text_;
  const std::string text = captured(block.body, inner_scope(scope), nullptr);
  if (!is_root)
    throw TemplateProblem(
        "{% generation %} is inside a macro or a captured block, where its place in the text is not known");
  generated_.push_back({root_text_.size(), root_text_.size() + text.size(), place.line});
  print(text);
}

void Interpreter::run_call_block(const CallBlock& block, const ScopePtr& scope) {
  const Call& call = std::get<Call>(block.call->node);
  const Value callee = evaluator_.evaluate(*call.callee, scope);
  Arguments given = evaluator_.arguments(call.arguments, scope);
  given.named.emplace_back("caller",
                           std::static_pointer_cast<Object>(std::make_shared<Macro>(*this, block.caller, scope)));
  const std::shared_ptr<Object> object = callee.as_object();
  if (!object || !object->is_callable())
    throw TemplateProblem("'" + std::string(callee.type_name()) + "' object is not callable");
  print(object->call(given).printed());
}

void Interpreter::define_macro(const std::shared_ptr<const MacroDefinition>& macro, const ScopePtr& scope) {
  scope->set(macro->name, std::static_pointer_cast<Object>(std::make_shared<Macro>(*this, macro, scope)));
}

void Interpreter::assign(const Target& target, Value value, const ScopePtr& scope) {
  if (!target.parts.empty()) {
    const std::vector<Value> items = items_of(value);
    if (items.size() != target.parts.size())
      throw TemplateProblem("expected " + std::to_string(target.parts.size()) + " values to unpack, got " +
                            std::to_string(items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
  } else if (target.member.empty()) {
    scope->set(target.name, std::move(value));
  } else {
    const Value* const object = scope->find(target.name);
    const std::shared_ptr<Object> own = object == nullptr ? nullptr : object->as_object();
    if (!own || !own->set_member(target.member, std::move(value)))
      throw TemplateProblem("cannot assign attribute on non-namespace object");
  }
}

}  // namespace trainctl::chat_template
