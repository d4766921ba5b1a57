// Conversations in JSON lines: messages, ShareGPT's conversations, prompt and completion.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dataset/chat_config.h"

namespace trainctl::dataset {

/// Turns as chat templates take them.
struct Conversation {
  nlohmann::ordered_json messages;  // [{role, content, …}]
  nlohmann::ordered_json tools;     // null: none
  std::string place;                // file:line
};

/// Reads one line. What isn't a conversation is an Error at `place`.
Conversation read_conversation(std::string_view line, const ChatFiles& files, const std::string& place);
/// Calls `use` with each line that isn't blank.
void read_conversations(const std::string& file, const ChatFiles& files,
                        const std::function<void(Conversation conversation)>& use);

}  // namespace trainctl::dataset
