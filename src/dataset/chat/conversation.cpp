#include "dataset/chat/conversation.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "dataset/text/reading/text_file.h"
#include "dataset/text/reading/text_reader.h"

namespace trainctl::dataset {
namespace {

using Json = nlohmann::ordered_json;

/// Names of roles in ShareGPT's files, and what templates call them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kShareGptRoles = {
    {{"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"observation", "tool"}, {"bot", "assistant"}}};

std::string role_named(const std::string& name) {
  for (const auto& [theirs, ours] : kShareGptRoles)
    if (name == theirs) return std::string(ours);
  return name;
}

Json parsed(std::string_view line, const std::string& place) {
  try {
    Json object = core::parse_json<Json>(line, place);
    if (!object.is_object()) throw core::Error(place + ": expected an object, got " + object.type_name());
    return object;
  } catch (const Json::out_of_range&) {
    throw core::Error(place + ": a number is too large");
  } catch (const Json::parse_error& error) {
    throw core::Error(place + ": not JSON, at byte " + std::to_string(error.byte) + " of the line");
  }
}

Json turn_of(const Json& given, const std::string& place, std::size_t number) {
  const std::string turn = place + ": turn " + std::to_string(number + 1);
  if (!given.is_object()) throw core::Error(turn + ": expected an object, got " + given.type_name());
  Json message = given;
  const bool is_share_gpt = !given.contains("role") && given.contains("from");
  const auto role = given.find(is_share_gpt ? "from" : "role");
  if (role == given.end() || !role->is_string())
    throw core::Error(turn + ": no text `role`").hint("a turn is {\"role\": \"user\", \"content\": \"…\"}");
  if (is_share_gpt) {
    message = {{"role", role_named(role->get<std::string>())},
               {"content", given.contains("value") ? given["value"] : Json()}};
  } else if (!given.contains("content") && !given.contains("tool_calls")) {
    throw core::Error(turn + ": no `content`").hint("a turn is {\"role\": \"user\", \"content\": \"…\"}");
  }
  return message;
}

Json turns_of(const Json& given, const std::string& member, const std::string& place) {
  if (!given.is_array())
    throw core::Error(place + ": `" + member + "` should be a list of turns, but is " + given.type_name());
  if (given.empty()) throw core::Error(place + ": `" + member + "` has no turns");
  Json messages = Json::array();
  for (const Json& turn : given) messages.push_back(turn_of(turn, place, messages.size()));
  return messages;
}

/// Appends the turns of a member: a text, which is one turn of this role, or a list of turns.
void append_turns(const Json& object, const std::string& member, const char* role, const std::string& place,
                  Json& messages) {
  const Json& part = object.at(member);
  if (part.is_string())
    messages.push_back({{"role", role}, {"content", part}});
  else
    for (const Json& turn : turns_of(part, member, place)) messages.push_back(turn);
}

/// Two texts, or two lists of turns, one after the other.
Json prompt_and_completion(const Json& object, const std::string& place) {
  Json messages = Json::array();
  append_turns(object, "prompt", "user", place, messages);
  append_turns(object, "completion", "assistant", place, messages);
  return messages;
}

/// Returns the conversation that ends with this member.
Conversation answered(const Json& object, const std::string& member, const std::string& place) {
  if (!object.contains(member)) {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.items()) names.push_back(name);
    throw core::Error(place + ": no `" + member + "`; got " + core::list_words(names))
        .hint("a pair is {\"prompt\": …, \"chosen\": …, \"rejected\": …}");
  }
  Json messages = Json::array();
  if (object.contains("prompt")) append_turns(object, "prompt", "user", place, messages);
  append_turns(object, member, "assistant", place, messages);
  const std::string where = place + ": `" + member + "`: ";
  if (messages.size() < 2) throw core::Error(where + "an answer without a prompt").hint("add the member `prompt`");
  const Json role = messages.back().value("role", Json());
  if (role != "assistant") throw core::Error(where + "the last turn is of " + role.dump() + ", not of the assistant");
  return {.messages = std::move(messages),
          .tools = object.contains("tools") ? object.at("tools") : Json(),
          .place = where.substr(0, where.size() - 2)};
}

Json messages_of(const Json& object, const ChatFiles& files, const std::string& place) {
  if (files.messages) {
    if (!object.contains(*files.messages))
      throw core::Error(place + ": this object has no member '" + *files.messages + "'");
    return turns_of(object.at(*files.messages), *files.messages, place);
  }
  for (const char* member : {"messages", "conversations"})
    if (object.contains(member)) return turns_of(object.at(member), member, place);
  if (object.contains("prompt") && object.contains("completion")) return prompt_and_completion(object, place);
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  throw core::Error(place +
                    ": no conversation; expected `messages`, `conversations`, or `prompt` and `completion`, got " +
                    core::list_words(names))
      .hint("name the member with the turns: dataset.train.messages");
}

}  // namespace

Conversation read_conversation(std::string_view line, const ChatFiles& files, const std::string& place) {
  const Json object = parsed(line, place);
  return {.messages = messages_of(object, files, place),
          .tools = object.contains("tools") ? object.at("tools") : Json(),
          .place = place};
}

std::array<Conversation, 2> read_preference(std::string_view line, const std::string& place) {
  const Json object = parsed(line, place);
  std::array<Conversation, 2> pair = {answered(object, "chosen", place), answered(object, "rejected", place)};
  const Json& chosen = pair[0].messages;
  const Json& rejected = pair[1].messages;
  if (chosen.size() != rejected.size())
    throw core::Error(place + ": `chosen` has " + std::to_string(chosen.size()) + " turns, and `rejected` " +
                      std::to_string(rejected.size()) + "; only the last turn may differ");
  for (std::size_t i = 0; i + 1 < chosen.size(); ++i)
    if (chosen[i] != rejected[i])
      throw core::Error(place + ": turn " + std::to_string(i + 1) +
                        " of `chosen` and `rejected` differs; only the last turn may");
  if (chosen.back() == rejected.back())
    throw core::Error(place + ": `chosen` and `rejected` are the same").hint("leave the row out");
  return pair;
}

void read_conversations(const std::string& file, const ChatFiles& files, Rows rows,
                        const std::function<void(Conversation)>& use) {
  const TextFileOptions options{.format = TextFormat::jsonl, .max_line_bytes = files.max_line_bytes};
  read_text_lines(file, options, [&](std::string_view line, std::int64_t number) {
    const std::string place = place_of(file, number);
    if (rows == Rows::conversations) return use(read_conversation(line, files, place));
    for (Conversation& one : read_preference(line, place)) use(std::move(one));
  });
}

}  // namespace trainctl::dataset
