#include "data_tools/token_pieces.h"

#include <algorithm>

namespace trainctl::data_tools {
namespace {

constexpr std::size_t kContext = 8;
constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";  // U+FFFD, which bytes that end inside a character become

/// The text that tokens [begin, end) add to those before them.
std::string text_between(const std::vector<std::int32_t>& ids, std::size_t begin, std::size_t end,
                         const tokenizer::Tokenizer& tokenizer) {
  const std::size_t from = begin < kContext ? 0 : begin - kContext;
  const std::span<const std::int32_t> all(ids);
  const std::string before = tokenizer.decode(all.subspan(from, begin - from), tokenizer::SpecialTokens::add);
  const std::string now = tokenizer.decode(all.subspan(from, end - from), tokenizer::SpecialTokens::add);
  if (now.starts_with(before)) return now.substr(before.size());
  return tokenizer.decode(all.subspan(begin, end - begin), tokenizer::SpecialTokens::add);
}

}  // namespace

std::vector<Piece> pieces_of(const std::vector<dataset::ShownToken>& tokens, const std::vector<std::string>& notes,
                             const tokenizer::Tokenizer* tokenizer) {
  std::vector<std::int32_t> ids;
  for (const dataset::ShownToken& token : tokens) ids.push_back(token.id);
  std::vector<Piece> pieces;
  for (std::size_t begin = 0; begin < tokens.size();) {
    std::size_t end = begin + 1;
    std::string text =
        tokenizer == nullptr ? std::to_string(ids[begin]) + " " : text_between(ids, begin, end, *tokenizer);
    while (tokenizer != nullptr && text.ends_with(kUnfinished) && end < tokens.size() && end - begin < 4 &&
           tokens[end].fate == tokens[begin].fate)
      text = text_between(ids, begin, ++end, *tokenizer);
    pieces.push_back({std::move(text), tokens[begin].fate, notes.empty() ? "" : notes[begin]});
    begin = end;
  }
  return pieces;
}

}  // namespace trainctl::data_tools
