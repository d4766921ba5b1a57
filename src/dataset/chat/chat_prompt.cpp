#include "dataset/chat_prompt.h"

#include <ctime>

#include "dataset/chat/chat_format.h"

namespace trainctl::dataset {
namespace {

constexpr std::string_view kAnswer = "qzAnswerqz";

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  ::localtime_r(&now, &date);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

/// Returns the token that the template puts behind an answer.
std::optional<std::int32_t> end_of_answer(const ChatFormat& format, Conversation conversation,
                                          const tokenizer::Tokenizer& tokenizer) {
  conversation.messages.push_back({{"role", "assistant"}, {"content", kAnswer}});
  const std::string text = format.render(conversation).text;
  const std::size_t found = text.rfind(kAnswer);
  if (found == std::string::npos) return std::nullopt;
  const std::string ending = text.substr(found + kAnswer.size());
  const std::size_t last = ending.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return std::nullopt;
  const auto ids =
      tokenizer.encode(ending.substr(0, last + 1), {.special_tokens = tokenizer::SpecialTokens::leave_out}).ids;
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

/// Returns how the dataset's conversations are read; none if it has no conversations.
std::optional<ChatConfig> chat_of(const SourceConfig& source) {
  if (const auto* const chat = source.get_if<ChatConfig>()) return *chat;
  if (const auto* const pairs = source.get_if<PreferenceConfig>()) return pairs->as_chat();
  return std::nullopt;
}

Conversation question_of(const std::string& question) {
  Conversation conversation{.messages = nlohmann::ordered_json::array(), .tools = nullptr, .place = "the prompt"};
  conversation.messages.push_back({{"role", "user"}, {"content", question}});
  return conversation;
}

}  // namespace

std::optional<TrainedChat> trained_chat(const SourceConfig& source, const tokenizer::Tokenizer& tokenizer) {
  const std::optional<ChatConfig> chat = chat_of(source);
  if (!chat) return std::nullopt;
  ChatConfig config = *chat;
  if (!config.date) config.date = today();
  const ChatFormat format(config);
  TrainedChat trained{.templates = format.sources(), .is_of_tokenizer = !chat->chat_template};
  if (trained.templates.contains(chat_template::kDefaultTemplate))
    trained.end = end_of_answer(format, question_of("a"), tokenizer);
  return trained;
}

std::optional<ChatPrompt> chat_prompt(const SourceConfig& source, const tokenizer::Tokenizer& tokenizer,
                                      const std::string& question) {
  const std::optional<ChatConfig> chat = chat_of(source);
  if (!chat) return std::nullopt;
  ChatConfig config = *chat;
  if (!config.date) config.date = today();
  const ChatFormat format(config);
  Conversation conversation = question_of(question);
  return ChatPrompt{.text = format.render(conversation, 1, true).text,
                    .end = end_of_answer(format, std::move(conversation), tokenizer)};
}

}  // namespace trainctl::dataset
