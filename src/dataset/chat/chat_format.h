// How conversations become text: the chat template and special tokens of a tokenizer.
#pragma once

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "chat_template/chat_template.h"
#include "chat_template/template_files.h"
#include "dataset/chat/conversation.h"
#include "dataset/chat_config.h"

namespace trainctl::dataset {

/// A template and what its source has.
class ParsedTemplate {
 public:
  ParsedTemplate(const std::string& source, const std::string& name) : source_(source), template_(source, name) {}
  const chat_template::ChatTemplate& chat() const { return template_; }
  /// Returns whether the source names a member of a turn: m.name, m['name'], m["name"].
  bool names_member(const std::string& name) const;
  /// Returns whether the source has the name of a variable.
  bool reads_variable(const std::string& name) const { return source_.find(name) != std::string::npos; }

 private:
  std::string source_;
  chat_template::ChatTemplate template_;
};

/// The templates of a tokenizer with the variables that every conversation gives them.
class ChatFormat {
 public:
  /// Without a template an Error that names the places where one was looked for.
  explicit ChatFormat(const ChatConfig& config);

  /// Renders the first `num_turns` turns.
  chat_template::Rendered render(const Conversation& conversation, std::size_t num_turns, bool asks_for_answer) const;
  chat_template::Rendered render(const Conversation& conversation) const {
    return render(conversation, conversation.messages.size(), false);
  }
  /// Returns the template that transformers takes: with tools `tool_use`, if there is one.
  const ParsedTemplate& template_for(const Conversation& conversation) const;
  const chat_template::NamedTemplates& sources() const { return sources_; }
  LossOn loss_on() const { return loss_on_; }
  /// All that decides on the text and its mask, as text.
  const std::string& reading() const { return reading_; }

 private:
  struct Files;
  ChatFormat(const ChatConfig& config, Files files);

  chat_template::NamedTemplates sources_;
  std::map<std::string, ParsedTemplate> templates_;
  nlohmann::ordered_json special_tokens_;
  std::optional<std::tm> date_;
  LossOn loss_on_;
  std::string reading_;
};

}  // namespace trainctl::dataset
