#include "chat_template/chat_template.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "chat_template/interpreter.h"
#include "chat_template/syntax.h"
#include "core/error.h"
#include "machine/limited_process.h"

namespace trainctl::chat_template {
namespace {

using Json = nlohmann::ordered_json;

/// A request is the options as they are in memory, since the child is a copy of this process; then the variables.
std::string as_request(const Json& variables, const RenderOptions& options) {
  std::string request(reinterpret_cast<const char*>(&options), sizeof options);
  Json::to_cbor(variables, request);
  return request;
}

Json to_json(const std::vector<TextSpan>& spans) {
  Json list = Json::array();
  for (const TextSpan& span : spans) list.push_back({span.begin, span.end, span.line});
  return list;
}

std::vector<TextSpan> to_spans(const Json& list) {
  std::vector<TextSpan> spans;
  for (const Json& span : list)
    spans.push_back({span[0].get<std::size_t>(), span[1].get<std::size_t>(), span[2].get<int>()});
  return spans;
}

std::string answer_to(const Syntax& syntax, const std::string& request) {
  static_assert(std::is_trivially_copyable_v<RenderOptions>);
  RenderOptions options;
  std::memcpy(static_cast<void*>(&options), request.data(), sizeof options);
  const Rendered rendered =
      Interpreter(syntax, options).run(Json::from_cbor(request.begin() + sizeof options, request.end()));
  std::string answer;
  Json::to_cbor({rendered.text, to_json(rendered.generated), to_json(rendered.printed)}, answer);
  return answer;
}

}  // namespace

class Renderer {
 public:
  explicit Renderer(Syntax read)
      : syntax(std::move(read)), process([this](const std::string& request) { return answer_to(syntax, request); }) {}

  const Syntax syntax;
  machine::LimitedProcess process;
};

ChatTemplate::ChatTemplate(std::string_view source, const std::string& name)
    : renderer_(std::make_unique<Renderer>(parse(source, name))) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

int Rendered::line_of(std::size_t byte) const {
  for (const TextSpan& span : printed)
    if (byte < span.end) return span.line;
  return 0;
}

Rendered ChatTemplate::render(const Json& variables, const RenderOptions& options) const {
  try {
    const Json answer = Json::from_cbor(renderer_->process.ask(as_request(variables, options)));
    return {.text = answer[0].get<std::string>(), .generated = to_spans(answer[1]), .printed = to_spans(answer[2])};
  } catch (const machine::LimitReached& limit) {
    throw core::Error(name() + ": the template " + limit.what());
  }
}

bool ChatTemplate::has_generation() const {
  return renderer_->syntax.has_generation;
}

const std::string& ChatTemplate::name() const {
  return renderer_->syntax.name;
}

}  // namespace trainctl::chat_template
