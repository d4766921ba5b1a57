// Runs a template's statements: scopes, output, loops, macros.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat_template/chat_template.h"
#include "chat_template/evaluator.h"
#include "chat_template/syntax.h"

namespace trainctl::chat_template {

class Interpreter {
 public:
  Interpreter(const Syntax& syntax, const RenderOptions& options)
      : syntax_(syntax), evaluator_(syntax.name), options_(options) {}
  Rendered run(const nlohmann::ordered_json& variables);
  /// Runs a macro's body with these values, and returns its text.
  std::string run_macro(const MacroDefinition& macro, const ScopePtr& scope);
  Evaluator& evaluator() { return evaluator_; }

 private:
  enum class Flow { on, break_loop, next_item };

  Flow run_body(const Body& body, const ScopePtr& scope);
  Flow run_statement(const Statement& statement, const ScopePtr& scope);
  Flow run_if(const If& block, const ScopePtr& scope);
  Flow run_for(const For& block, const ScopePtr& scope);
  std::vector<Value> loop_items(const For& block, const ScopePtr& scope);
  Flow run_capture(const Capture& block, const ScopePtr& scope);
  void run_generation(const Generation& block, Place place, const ScopePtr& scope);
  void run_call_block(const CallBlock& block, const ScopePtr& scope);
  std::string captured(const Body& body, const ScopePtr& scope, Flow* flow);
  void define_macro(const std::shared_ptr<const MacroDefinition>& macro, const ScopePtr& scope);
  void assign(const Target& target, Value value, const ScopePtr& scope);
  void print(std::string_view text);

  const Syntax& syntax_;
  Evaluator evaluator_;
  const RenderOptions& options_;
  std::string root_text_;
  std::string* output_ = &root_text_;
  std::vector<TextSpan> generated_;
  std::vector<TextSpan> printed_;
  int depth_ = 0;
};

}  // namespace trainctl::chat_template
