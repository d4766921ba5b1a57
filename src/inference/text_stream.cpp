#include "inference/text_stream.h"

#include <algorithm>

namespace trainctl::inference {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kContext = 8;           // tokens before the new ones; farther tokens don't affect the text
constexpr std::size_t kLongestCharacter = 4;  // bytes, each of which may be a token

}  // namespace

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::int32_t> context)
    : tokenizer_(tokenizer), ids_(std::move(context)), begin_(ids_.size()), emitted_(ids_.size()) {
  begin_ -= std::min(begin_, kContext);
}

std::string TextStream::decode(std::size_t begin, std::size_t end) const {
  return tokenizer_.decode(std::span(ids_).subspan(begin, end - begin), tokenizer::SpecialTokens::leave_out);
}

std::string TextStream::add(std::int32_t id) {
  ids_.push_back(id);
  // Text ends in U+FFFD while a character's bytes are incomplete. After a few more tokens, the U+FFFD is genuine.
  const bool is_incomplete =
      ids_.size() - emitted_ < kLongestCharacter && decode(begin_, ids_.size()).ends_with(kReplacement);
  return is_incomplete ? "" : finish();
}

std::string TextStream::finish() {
  const std::string before = decode(begin_, emitted_);
  const std::string after = decode(begin_, ids_.size());
  // The emitted text is no prefix if it ended within a character.
  std::string fresh = after.starts_with(before) ? after.substr(before.size()) : decode(emitted_, ids_.size());
  begin_ = emitted_;
  emitted_ = ids_.size();
  return fresh;
}

}  // namespace trainctl::inference
