#include "dataset/chat/chat_format.h"

#include <array>
#include <cstdio>
#include <filesystem>

#include "config/field.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostBytes = 64 << 20;

constexpr std::array<std::string_view, 7> kSpecialTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                            "pad_token", "cls_token", "mask_token"};

/// ChatML, as published models have it, with the assistant's turns marked.
constexpr std::string_view kChatMlTemplate = R"({%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' }}
{%- if message['role'] == 'assistant' %}
{%- generation %}
{{- message['content'] + '<|im_end|>' }}
{%- endgeneration %}
{%- else %}
{{- message['content'] + '<|im_end|>' }}
{%- endif %}
{{- '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %})";

Json read_json(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  try {
    Json json = core::parse_json<Json>(core::read_file(path, kMostBytes), path.string());
    return json.is_object() ? json : Json::object();
  } catch (const Json::parse_error& error) {
    throw core::Error(path.string() + ": not JSON, at byte " + std::to_string(error.byte));
  }
}

/// `"bos_token": "<s>"`, or `{"content": "<s>", …}`.
void add_special_tokens(const Json& config, Json& tokens) {
  for (const std::string_view name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end() || tokens.contains(name)) continue;
    if (found->is_string()) tokens[std::string(name)] = *found;
    if (found->is_object() && found->contains("content")) tokens[std::string(name)] = found->at("content");
  }
}

std::optional<std::tm> date_of(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int year = 0;
  int month = 0;
  int day = 0;
  char rest = 0;
  if (std::sscanf(text->c_str(), "%4d-%2d-%2d%c", &year, &month, &day, &rest) != 3 || month < 1 || month > 12 ||
      day < 1 || day > 31)
    throw core::Error("dataset.date: expected a date as 2024-07-26, got '" + *text + "'");
  std::tm date{};
  date.tm_year = year - 1900;
  date.tm_mon = month - 1;
  date.tm_mday = day;
  date.tm_hour = 12;
  std::tm normal = date;
  normal.tm_isdst = -1;
  ::timegm(&normal);  // sets the day of the week
  return normal;
}

}  // namespace

/// What a tokenizer's directory says of chats.
struct ChatFormat::Files {
  chat_template::NamedTemplates sources{};
  std::string name{};  // for errors
  Json special_tokens = Json::object();

  explicit Files(const ChatConfig& config) {
    const bool has_directory = config.tokenizer != "bytes";
    const fs::path directory =
        fs::is_directory(config.tokenizer) ? fs::path(config.tokenizer) : fs::path(config.tokenizer).parent_path();
    const fs::path config_file = directory / "tokenizer_config.json";
    const fs::path template_file = directory / chat_template::kTemplateFile;
    if (has_directory) add_special_tokens(read_json(config_file), special_tokens);
    if (has_directory) add_special_tokens(read_json(directory / "special_tokens_map.json"), special_tokens);
    if (config.chat_template == std::string(kChatMl)) {
      sources[chat_template::kDefaultTemplate] = kChatMlTemplate;
      name = kChatMl;
    } else if (config.chat_template) {
      sources[chat_template::kDefaultTemplate] = core::read_file(*config.chat_template, kMostBytes);
      name = *config.chat_template;
    } else if (has_directory) {
      sources = chat_template::read_templates(directory);
      name = fs::exists(template_file) ? template_file.string() : config_file.string() + ": chat_template";
    }
    std::erase_if(sources, [](const auto& named) { return named.second.empty(); });
    if (!sources.empty()) return;
    throw core::Error(
        "tokenizer " + config.tokenizer + " has no chat template" +
        (has_directory ? "; looked for " + template_file.string() + " and `chat_template` in " + config_file.string()
                       : std::string()))
        .hint("set dataset.chat_template to a file with a Jinja template, or to chatml");
  }
};

ChatFormat::ChatFormat(const ChatConfig& config) : ChatFormat(config, Files(config)) {}

ChatFormat::ChatFormat(const ChatConfig& config, Files files)
    : sources_(std::move(files.sources)),
      special_tokens_(std::move(files.special_tokens)),
      date_(date_of(config.date)),
      loss_on_(config.loss_on) {
  std::string checksums;
  for (const auto& [name, source] : sources_) {
    const bool is_only = name == chat_template::kDefaultTemplate;
    templates_.emplace(name, ParsedTemplate(source, is_only ? files.name : files.name + " (" + name + ")"));
    checksums += " " + (is_only ? "" : name + " ") + core::checksum(source);
  }
  reading_ = "chat 2 " + std::string(config::name_of(config.loss_on)) + " " + config.date.value_or("") + " " +
             special_tokens_.dump() + checksums;
}

const ParsedTemplate& ChatFormat::template_for(const Conversation& conversation) const {
  auto found = conversation.tools.is_null() ? templates_.end() : templates_.find(chat_template::kToolTemplate);
  if (found == templates_.end()) found = templates_.find(chat_template::kDefaultTemplate);
  if (found != templates_.end()) return found->second;
  throw core::Error(conversation.place + ": the tokenizer has no chat template `default`, only `" +
                    templates_.begin()->first + "`")
      .hint("set dataset.chat_template to a file with a Jinja template, or to chatml");
}

bool ParsedTemplate::names_member(const std::string& name) const {
  for (const std::string& access : {"." + name, "'" + name + "'", "\"" + name + "\""})
    if (source_.find(access) != std::string::npos) return true;
  return false;
}

chat_template::Rendered ChatFormat::render(const Conversation& conversation, std::size_t num_turns,
                                           bool asks_for_answer) const {
  Json variables = special_tokens_;
  Json messages = Json::array();
  for (std::size_t i = 0; i < num_turns; ++i) messages.push_back(conversation.messages[i]);
  variables["messages"] = std::move(messages);
  variables["tools"] = conversation.tools;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = asks_for_answer;
  variables.update(conversation.variables);
  try {
    return template_for(conversation).chat().render(variables, {.now = date_});
  } catch (const core::Error& error) {
    core::Error told(conversation.place + ": " + error.what());
    if (std::string_view(error.what()).find("strftime_now") != std::string_view::npos)
      told.hint("set dataset.date, such as 2024-07-26");
    throw told;
  }
}

}  // namespace trainctl::dataset
