// The chat templates in a published tokenizer's directory.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace trainctl::chat_template {

/// Sources by name. Conversations with tools take `tool_use`, if there is one, and all others `default`.
using NamedTemplates = std::map<std::string, std::string>;

constexpr const char* kDefaultTemplate = "default";
constexpr const char* kToolTemplate = "tool_use";
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kTemplateDirectory = "additional_chat_templates";

/// Returns the files additional_chat_templates/NAME.jinja of a directory, by their names.
std::map<std::string, std::filesystem::path> additional_templates(const std::filesystem::path& directory);

/// Returns what transformers' AutoTokenizer takes: chat_template.jinja and additional_chat_templates/NAME.jinja. Only
/// without such files it is `chat_template` of tokenizer_config.json, a text or several with names. Empty if there is
/// none.
NamedTemplates read_templates(const std::filesystem::path& directory);

}  // namespace trainctl::chat_template
