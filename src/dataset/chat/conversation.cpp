#include "dataset/chat/conversation.h"

#include <algorithm>
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
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kShareGptRoles = {{{"human", "user"},
                                                                                          {"user", "user"},
                                                                                          {"gpt", "assistant"},
                                                                                          {"chatgpt", "assistant"},
                                                                                          {"bot", "assistant"},
                                                                                          {"assistant", "assistant"},
                                                                                          {"observation", "tool"},
                                                                                          {"tool", "tool"},
                                                                                          {"system", "system"}}};

/// Members that say where a row comes from, and neither what a model sees of it nor what it learns.
constexpr std::array<std::string_view, 34> kMetadata = {"id",
                                                        "idx",
                                                        "index",
                                                        "uuid",
                                                        "hash",
                                                        "source",
                                                        "dataset",
                                                        "category",
                                                        "domain",
                                                        "topic",
                                                        "language",
                                                        "lang",
                                                        "split",
                                                        "url",
                                                        "model",
                                                        "timestamp",
                                                        "created",
                                                        "created_at",
                                                        "updated_at",
                                                        "license",
                                                        "author",
                                                        "metadata",
                                                        "meta",
                                                        "num_turns",
                                                        "num_tokens",
                                                        "title",
                                                        "score",
                                                        "quality",
                                                        "rating",
                                                        "score_chosen",
                                                        "score_rejected",
                                                        "rating_chosen",
                                                        "rating_rejected",
                                                        "cache_control"};

/// Members by which OpenAI's, axolotl's and ms-swift's files say whether a turn is learned.
constexpr std::array<std::string_view, 3> kTrainedMarks = {"weight", "train", "loss"};

/// Arguments of transformers' apply_chat_template that aren't a template's variables.
constexpr std::array<std::string_view, 13> kNoVariables = {"conversation",
                                                           "messages",
                                                           "tools",
                                                           "add_generation_prompt",
                                                           "continue_final_message",
                                                           "tokenize",
                                                           "padding",
                                                           "truncation",
                                                           "max_length",
                                                           "return_tensors",
                                                           "return_dict",
                                                           "chat_template",
                                                           "return_assistant_tokens_mask"};

constexpr const char* kTurnHint = "a turn is {\"role\": \"user\", \"content\": \"…\"}";

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool are_equal(const Json& a, const Json& b) {
  return nlohmann::json(a) == nlohmann::json(b);  // in any order of members
}

std::string names_in(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return core::list_words(names);
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

std::string role_named(const std::string& name, const std::string& turn) {
  for (const auto& [theirs, ours] : kShareGptRoles)
    if (name == theirs) return std::string(ours);
  throw core::Error(turn + ": `from` is '" + name + "'; expected human, gpt, system or observation")
      .hint("write the turn as {\"role\": …, \"content\": …}");
}

/// A content is a text, a list of texts as {"type": "text", "text": …}, or null beside calls of tools.
void check_content(const Json& message, const std::string& turn) {
  const auto found = message.find("content");
  const bool has_calls = message.contains("tool_calls") && !message.at("tool_calls").empty();
  if (found == message.end() || found->is_null()) {
    if (!has_calls) throw core::Error(turn + ": no `content`").hint(kTurnHint);
    return;
  }
  if (found->is_string()) return;
  if (!found->is_array())
    throw core::Error(turn + ": `content` should be a text, but is " + found->type_name()).hint(kTurnHint);
  for (const Json& part : *found) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" && part.contains("text") &&
                         part.at("text").is_string();
    if (!is_text)
      throw core::Error(turn + ": a part of `content` is no text: " +
                        (part.is_object() ? "type " + part.value("type", Json()).dump() : part.type_name()))
          .hint("a conversation has texts alone: {\"type\": \"text\", \"text\": \"…\"}");
    for (const auto& [name, value] : part.items())
      if (name != "type" && name != "text" && has_meaning(name, value))
        throw core::Error(turn + ": a part of `content` has the member `" + name + "`, which isn't read");
  }
}

Json turn_of(const Json& given, const std::string& place, std::size_t number) {
  const std::string turn = place + ": turn " + std::to_string(number + 1);
  if (!given.is_object()) throw core::Error(turn + ": expected an object, got " + given.type_name());
  Json message = given;
  const bool is_share_gpt = !given.contains("role") && given.contains("from");
  const auto role = given.find(is_share_gpt ? "from" : "role");
  if (role == given.end() || !role->is_string()) throw core::Error(turn + ": no text `role`").hint(kTurnHint);
  if (is_share_gpt) {
    if (!given.contains("value")) throw core::Error(turn + ": no `value`; got " + names_in(given));
    message = {{"role", role_named(role->get<std::string>(), turn)}, {"content", given.at("value")}};
    for (const auto& [name, value] : given.items())
      if (name != "from" && name != "value") {
        if (message.contains(name)) throw core::Error(turn + ": `" + name + "` beside `value`").hint(kTurnHint);
        message[name] = value;
      }
  }
  check_content(message, turn);
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

/// Returns the turns of a member: a text, which is one turn of this role, or a list of turns.
Json turns_in(const Json& object, const std::string& member, const char* role, const std::string& place) {
  const Json& part = object.at(member);
  if (part.is_string()) return Json::array({{{"role", role}, {"content", part}}});
  return turns_of(part, member, place);
}

/// Returns the prompt's turns and the answer's, where the answer isn't the whole conversation. TRL, too, takes a prompt
/// that is a text out of answers that are conversations.
Json with_prompt(const Json& object, const std::string& member, const std::string& place) {
  Json answer = turns_in(object, member, "assistant", place);
  if (!object.contains("prompt")) return answer;
  const Json prompt = turns_in(object, "prompt", "user", place);
  const Json first_role = answer.front().at("role");
  if (object.at("prompt").is_string() && object.at(member).is_array() && first_role != "assistant") {
    if (std::ranges::any_of(answer, [&](const Json& turn) {
          return turn.at("role") == "user" && turn.value("content", Json()) == object.at("prompt");
        }))
      return answer;
    throw core::Error(place + ": `" + member + "` is a conversation, and `prompt` isn't a turn of the user in it")
        .hint("remove `prompt`, or write it as a list of the turns before the answer");
  }
  const bool begins_again = first_role == "system" || std::ranges::any_of(prompt, [&](const Json& turn) {
                              return first_role != "assistant" && are_equal(turn, answer.front());
                            });
  if (begins_again)
    throw core::Error(place + ": `" + member + "` begins with a turn of `prompt`, so the prompt would be there twice")
        .hint("remove `prompt`, or leave its turns out of `" + member + "`");
  Json messages = prompt;
  for (const Json& turn : answer) messages.push_back(turn);
  return messages;
}

/// The row's `system`, as LLaMA-Factory, axolotl and Anthropic write it, is the first turn.
void add_system(const Json& object, const std::string& place, Json& messages) {
  if (!object.contains("system") || !has_meaning("system", object.at("system"))) return;
  const Json turn = turn_of({{"role", "system"}, {"content", object.at("system")}}, place, 0);
  const Json& role = messages.front().at("role");
  if (role != "system" && role != "developer") {
    messages.insert(messages.begin(), turn);
  } else if (!are_equal(messages.front().value("content", Json()), turn.at("content"))) {
    throw core::Error(place + ": `system` differs from the system's turn").hint("leave one of them out");
  }
}

/// Tools are a list of objects, or this list as a JSON text, as in files that TRL and LLaMA-Factory read.
Json tools_of(const Json& object, const std::string& place) {
  if (!object.contains("tools") || !has_meaning("tools", object.at("tools"))) return {};
  Json tools = object.at("tools");
  if (tools.is_string()) tools = core::parse_json_or_discard<Json>(tools.get_ref<const std::string&>());
  if (tools.is_null() || (tools.is_array() && tools.empty())) return {};
  if (!tools.is_array() || !std::ranges::all_of(tools, [](const Json& tool) { return tool.is_object(); }))
    throw core::Error(place + ": `tools` should be a list of objects, or this list as a JSON text");
  return tools;
}

/// TRL passes these to the template.
Json variables_of(const Json& object, const std::string& place) {
  constexpr const char* kMember = "chat_template_kwargs";
  if (!object.contains(kMember) || object.at(kMember).is_null()) return Json::object();
  const Json& variables = object.at(kMember);
  if (!variables.is_object()) throw core::Error(place + ": `chat_template_kwargs` should be an object");
  for (const auto& [name, value] : variables.items())
    if (is_one_of(kNoVariables, name))
      throw core::Error(place + ": `chat_template_kwargs`: `" + name + "` is no variable of a template");
  return variables;
}

/// Returns whether a mark of a turn says that the turn is learned.
bool is_learned(const std::string& name, const Json& mark, const std::string& turn) {
  if (mark.is_boolean() && name != "weight") return mark.get<bool>();
  if (mark.is_number() && name == "weight" && (mark == 0 || mark == 1)) return mark == 1;
  throw core::Error(turn + ": `" + name + "` is " + mark.dump() + "; expected " +
                    (name == "weight" ? "0 or 1" : "true or false"));
}

/// Removes the marks of turns that say whether they are learned, and returns the turns that aren't.
std::vector<std::size_t> take_marks(Json& messages, const std::string& place) {
  std::vector<std::size_t> unlearned;
  for (std::size_t i = 0; i < messages.size(); ++i)
    for (const std::string_view mark : kTrainedMarks) {
      const std::string name(mark);
      if (!messages[i].contains(name)) continue;
      const std::string turn = place + ": turn " + std::to_string(i + 1);
      const Json value = messages[i].at(name);
      messages[i].erase(name);
      if (value.is_null()) continue;
      if (!is_learned(name, value, turn)) {
        unlearned.push_back(i);
      } else if (messages[i].at("role") != "assistant") {
        throw core::Error(turn + ": `" + name + "` is " + value.dump() + ", and only the assistant's turns are learned")
            .hint("remove `" + name + "`");
      }
    }
  return unlearned;
}

/// Returns whether a member repeats turns of the conversation, so that nothing is lost with the member.
bool repeats_turns(const Json& value, const Json& messages) {
  if (value.is_string())
    return std::ranges::any_of(messages, [&](const Json& turn) { return turn.value("content", Json()) == value; });
  if (!value.is_array()) return false;
  return std::search(messages.begin(), messages.end(), value.begin(), value.end(), are_equal) != messages.end();
}

/// Refuses a member that would be lost. `read`: the members that are read, or left out at the user's own word.
void check_members(const Json& object, std::span<const std::string_view> read, const Json& messages,
                   const std::string& place) {
  for (const auto& [name, value] : object.items()) {
    if (is_one_of(read, name) || !has_meaning(name, value) || repeats_turns(value, messages)) continue;
    throw core::Error(place + ": the member `" + name + "` isn't read, and may say what is seen or learned")
        .hint("if it doesn't, remove it from each row: jq -c 'del(.[\"" + name + "\"])' OLD.jsonl > NEW.jsonl");
  }
}

Conversation conversation_of(const Json& object, Json messages, const std::string& place) {
  add_system(object, place, messages);
  std::vector<std::size_t> unlearned = take_marks(messages, place);
  return {.messages = std::move(messages),
          .tools = tools_of(object, place),
          .variables = variables_of(object, place),
          .unlearned = std::move(unlearned),
          .place = place};
}

/// Returns the conversation that ends with this member.
Conversation answered(const Json& object, const std::string& member, const std::string& place) {
  if (!object.contains(member))
    throw core::Error(place + ": no `" + member + "`; got " + names_in(object))
        .hint("a pair is {\"prompt\": …, \"chosen\": …, \"rejected\": …}");
  Conversation conversation = conversation_of(object, with_prompt(object, member, place), place + ": `" + member + "`");
  const Json& messages = conversation.messages;
  if (messages.size() < 2)
    throw core::Error(conversation.place + ": an answer without a prompt").hint("add the member `prompt`");
  const Json& role = messages.back().at("role");
  if (role != "assistant")
    throw core::Error(conversation.place + ": the last turn is of " + role.dump() + ", not of the assistant");
  return conversation;
}

Json messages_of(const Json& object, const ChatFiles& files, const std::string& place) {
  if (files.messages) {
    if (!object.contains(*files.messages))
      throw core::Error(place + ": this object has no member '" + *files.messages + "'");
    return turns_of(object.at(*files.messages), *files.messages, place);
  }
  for (const char* member : {"messages", "conversations"})
    if (object.contains(member)) return turns_of(object.at(member), member, place);
  if (object.contains("prompt") && object.contains("completion")) return with_prompt(object, "completion", place);
  throw core::Error(place +
                    ": no conversation; expected `messages`, `conversations`, or `prompt` and `completion`, got " +
                    names_in(object))
      .hint("name the member with the turns: dataset.train.messages");
}

/// Returns the members of which a conversation is made.
std::vector<std::string_view> members_read(const Json& object, const ChatFiles& files) {
  std::vector<std::string_view> read = {"system", "tools", "chat_template_kwargs"};
  if (files.messages) {
    // The user has chosen among the members that have turns.
    read.insert(read.end(), {*files.messages, "messages", "conversations", "completion", "chosen", "rejected"});
    return read;
  }
  for (const char* member : {"messages", "conversations"})
    if (object.contains(member)) {
      read.emplace_back(member);
      return read;
    }
  read.insert(read.end(), {"prompt", "completion"});
  return read;
}

}  // namespace

bool has_meaning(const std::string& name, const Json& value) {
  const bool is_empty = value.is_null() || (value.is_string() ? value == "" : value.is_structured() && value.empty());
  return !is_empty && !name.ends_with("_id") && !is_one_of(kMetadata, name);
}

Conversation read_conversation(std::string_view line, const ChatFiles& files, const std::string& place) {
  const Json object = parsed(line, place);
  Json messages = messages_of(object, files, place);
  check_members(object, members_read(object, files), messages, place);
  return conversation_of(object, std::move(messages), place);
}

std::array<Conversation, 2> read_preference(std::string_view line, const std::string& place) {
  const Json object = parsed(line, place);
  std::array<Conversation, 2> pair = {answered(object, "chosen", place), answered(object, "rejected", place)};
  const Json& chosen = pair[0].messages;
  const Json& rejected = pair[1].messages;
  constexpr std::array<std::string_view, 6> kRead = {"prompt", "chosen", "rejected",
                                                     "system", "tools",  "chat_template_kwargs"};
  check_members(object, kRead, chosen, place);
  if (chosen.size() != rejected.size())
    throw core::Error(place + ": `chosen` has " + std::to_string(chosen.size()) + " turns, and `rejected` " +
                      std::to_string(rejected.size()) + "; only the last turn may differ");
  for (std::size_t i = 0; i + 1 < chosen.size(); ++i)
    if (!are_equal(chosen[i], rejected[i]))
      throw core::Error(place + ": turn " + std::to_string(i + 1) +
                        " of `chosen` and `rejected` differs; only the last turn may");
  if (are_equal(chosen.back(), rejected.back()))
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
