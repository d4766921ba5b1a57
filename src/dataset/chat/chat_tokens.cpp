#include "dataset/chat/chat_tokens.h"

#include <algorithm>

#include "core/error.h"
#include "dataset/collate/token_rows.h"

namespace trainctl::dataset {
namespace {

/// Spans of bytes as spans of code points, as tokenizers count.
std::vector<tokenizer::TextRange> in_code_points(const MarkedText& marked) {
  std::vector<tokenizer::TextRange> ranges;
  std::size_t byte = 0;
  std::int32_t count = 0;
  const auto move_to = [&](std::size_t end) {
    for (; byte < end; ++byte)
      if ((static_cast<unsigned char>(marked.text[byte]) & 0xC0U) != 0x80) ++count;
    return count;
  };
  for (const chat_template::TextSpan& span : marked.trained) {
    const std::int32_t begin = move_to(span.begin);
    ranges.push_back({.begin = begin, .end = move_to(span.end)});
  }
  return ranges;
}

}  // namespace

ChatTokens tokenize_conversation(const ChatFormat& format, const tokenizer::Tokenizer& tokenizer,
                                 const Conversation& conversation) {
  const MarkedText marked = mark_conversation(format, conversation);
  const tokenizer::Encoding encoding =
      tokenizer.encode(marked.text, {.special_tokens = tokenizer::SpecialTokens::leave_out});
  if (encoding.ids.empty()) throw core::Error(conversation.place + ": the conversation has no tokens");
  const std::vector<tokenizer::TextRange> trained = in_code_points(marked);
  ChatTokens tokens{.ids = encoding.ids, .labels = std::vector<std::int32_t>(encoding.ids.size(), kNoTarget)};
  std::size_t next = 0;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const tokenizer::TextRange& range = encoding.offsets[i];
    while (next < trained.size() && trained[next].end <= range.begin) ++next;
    if (next < trained.size() && range.end > trained[next].begin && range.end > range.begin)
      tokens.labels[i] = tokens.ids[i];
  }
  const auto num_learned =
      std::count_if(tokens.labels.begin(), tokens.labels.end(), [](std::int32_t label) { return label != kNoTarget; });
  const int line = marked.trained.front().line;
  const std::string where =
      " (" + format.template_for(conversation).chat().name() + (line > 0 ? ":" + std::to_string(line) : "") + ")";
  if (num_learned == 0) throw core::Error(conversation.place + ": no token is learned" + where);
  if (format.loss_on() != LossOn::all && num_learned == static_cast<std::ptrdiff_t>(tokens.ids.size()))
    throw core::Error(conversation.place + ": every token is learned, the prompt's too" + where);
  return tokens;
}

}  // namespace trainctl::dataset
