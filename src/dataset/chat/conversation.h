// Conversations in JSON lines: messages, ShareGPT's conversations, prompt and completion.
#pragma once

#include <array>
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

/// What a line has: a conversation, or two of which the first is preferred.
enum class Rows { conversations, preferences };

/// Reads one line. What isn't a conversation is an Error at `place`.
Conversation read_conversation(std::string_view line, const ChatFiles& files, const std::string& place);
/// Reads one line with `chosen` and `rejected`, and perhaps the `prompt` of both: the preferred conversation, then the
/// other. Turns before the last that differ, and a last one that isn't the assistant's, are an Error at `place`.
std::array<Conversation, 2> read_preference(std::string_view line, const std::string& place);
/// Calls `use` with the conversations of each line that isn't blank.
void read_conversations(const std::string& file, const ChatFiles& files, Rows rows,
                        const std::function<void(Conversation conversation)>& use);

}  // namespace trainctl::dataset
