// Conversations in JSON lines: messages, ShareGPT's conversations, prompt and completion.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/chat_config.h"

namespace trainctl::dataset {

/// Turns as chat templates take them.
struct Conversation {
  nlohmann::ordered_json messages;                                      // [{role, content, …}]
  nlohmann::ordered_json tools;                                         // null: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // of the row, for its template
  std::vector<std::size_t> unlearned{};                                 // turns that the row excludes from the loss
  std::string place;                                                    // file:line
};

/// What a line has: a conversation, or two of which the first is preferred.
enum class Rows { conversations, preferences };

/// Returns whether a member of a row or of a turn has a value, and a name that isn't known for mere metadata.
bool has_meaning(const std::string& name, const nlohmann::ordered_json& value);
/// Reads one line. What isn't a conversation is an Error at `place`, and so is a member that would be lost.
Conversation read_conversation(std::string_view line, const ChatFiles& files, const std::string& place);
/// Reads one line with `chosen` and `rejected`, and perhaps the `prompt` of both: the preferred conversation, then the
/// other. A `prompt` that the answers begin with is read once, as TRL does. Turns before the last that differ, and a
/// last one that isn't the assistant's, are an Error at `place`.
std::array<Conversation, 2> read_preference(std::string_view line, const std::string& place);
/// Calls `use` with the conversations of each line that isn't blank.
void read_conversations(const std::string& file, const ChatFiles& files, Rows rows,
                        const std::function<void(Conversation conversation)>& use);

}  // namespace trainctl::dataset
