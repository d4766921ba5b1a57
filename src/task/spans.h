// Spans of tokens in tags as CoNLL-2000 writes them: O, B-type, I-type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::task {

/// What a class says of its token.
struct Tag {
  enum class Kind { outside, begin, inside } kind = Kind::outside;
  std::string type;
};

/// The classes as tags; none where some class is called otherwise.
std::optional<std::vector<Tag>> as_tags(const std::vector<std::string>& class_names);

/// Tokens [begin, end) of one type.
struct TokenSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string type;
  auto operator<=>(const TokenSpan&) const = default;
};

/// Returns the spans as conlleval and seqeval find them: I- without a span of its type before it begins one.
std::vector<TokenSpan> spans_of(std::span<const std::int64_t> classes, const std::vector<Tag>& tags);

}  // namespace trainctl::task
