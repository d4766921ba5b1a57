// Objects that the interpreter makes: loops, macros, namespaces and global functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "chat_template/chat_template.h"
#include "chat_template/evaluator.h"
#include "chat_template/value.h"

namespace trainctl::chat_template {

/// A function that a template can call.
class Function final : public Object {
 public:
  using Body = std::function<Value(const Arguments&)>;
  explicit Function(Body body) : body_(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  Value call(const Arguments& arguments) override { return body_(arguments); }

 private:
  Body body_;
};
Value function(Function::Body body);

/// `loop` in a {% for %}.
class Loop final : public Object {
 public:
  Loop(const std::vector<Value>& items, std::int64_t depth) : items_(items), depth_(depth) {}
  void move_to(std::size_t index) { index_ = index; }
  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<Value> member(std::string_view name) const override;

 private:
  std::optional<Value> function_member(std::string_view name) const;

  std::vector<Value> items_;
  std::int64_t depth_;
  std::size_t index_ = 0;
  std::shared_ptr<std::optional<Value>> last_changed_ = std::make_shared<std::optional<Value>>();
};

/// Puts range, dict, namespace, raise_exception and strftime_now into a scope.
void define_globals(Scope& scope, const RenderOptions& options);

}  // namespace trainctl::chat_template
