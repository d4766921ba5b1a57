// Chat templates of tokenizers: Jinja2 as transformers sets it up, rendered without Python. No LibTorch here.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::chat_template {

struct RenderOptions {
  /// What strftime_now is told. Without a date, a template that calls it is an Error.
  std::optional<std::tm> now{};
};

/// Bytes [begin, end) of the rendered text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  int line = 0;  // of the template, where the statement begins
  bool operator==(const TextSpan&) const = default;
};

struct Rendered {
  std::string text;
  std::vector<TextSpan> generated{};  // what {% generation %} blocks print, in order
  std::vector<TextSpan> printed{};    // what each statement prints, in order
  /// Returns the template's line that prints this byte of the text; 0 behind the text.
  int line_of(std::size_t byte) const;
};

class Renderer;

/// Immutable; any number of threads may render at once.
class ChatTemplate {
 public:
  /// `name` is for errors: "tokenizer_config.json: chat_template". What isn't supported is an Error with its line.
  ChatTemplate(std::string_view source, const std::string& name);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// `variables`: an object with messages, add_generation_prompt, bos_token, … A template that refuses them
  /// (raise_exception) is an Error, as is each mistake in it: `name:line:column: …`. A child process with limits of
  /// time and memory does the work, since a template may be a stranger's.
  Rendered render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;
  bool has_generation() const;
  const std::string& name() const;

 private:
  std::unique_ptr<Renderer> renderer_;
};

}  // namespace trainctl::chat_template
