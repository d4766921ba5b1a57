#include "chat_template/chat_template.h"

#include "chat_template/interpreter.h"
#include "chat_template/syntax.h"

namespace trainctl::chat_template {

ChatTemplate::ChatTemplate(std::string_view source, const std::string& name)
    : syntax_(std::make_unique<const Syntax>(parse(source, name))) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

int Rendered::line_of(std::size_t byte) const {
  for (const TextSpan& span : printed)
    if (byte < span.end) return span.line;
  return 0;
}

Rendered ChatTemplate::render(const nlohmann::ordered_json& variables, const RenderOptions& options) const {
  return Interpreter(*syntax_, options).run(variables);
}

bool ChatTemplate::has_generation() const {
  return syntax_->has_generation;
}

const std::string& ChatTemplate::name() const {
  return syntax_->name;
}

}  // namespace trainctl::chat_template
