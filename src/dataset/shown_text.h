// Conversations, and pairs of texts, as a person may look at them: what becomes of each token.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataset/config.h"

namespace trainctl::dataset {

/// learned: the model is asked for the token. seen: it is context alone. cut: it is behind the longest row.
enum class TokenFate { learned, seen, cut, padding };
inline constexpr std::size_t kNumFates = 4;

struct ShownToken {
  std::int32_t id = 0;
  TokenFate fate = TokenFate::seen;
};

struct ShownText {
  std::string place;
  std::vector<ShownToken> tokens;
};

/// A row, and its number of tokens before the cut.
struct LongText {
  std::string place;
  std::int64_t num_tokens = 0;
};

/// Conversations, or pairs of a source and a target text.
struct ShownConversations {
  std::vector<ShownText> texts;                      // the first ones
  std::array<std::int64_t, kNumFates> num_tokens{};  // of all conversations, by fate
  std::int64_t num_conversations = 0;
  std::int64_t num_rows = 0;  // of seq_len tokens, that conversations are packed into; 0: they are pairs
  std::vector<LongText> longest;
};

struct ShowRequest {
  std::int64_t most_texts = 0;
  bool of_evaluation = false;
  std::function<void(const std::string&)> tell{};  // told of what takes a while
};

/// Returns the first conversations, and the numbers of all; nothing if the dataset has no conversations.
std::optional<ShownConversations> shown_conversations(const SourceConfig& source, const ShowRequest& request);

/// Returns the first pairs of texts, and the numbers of all; nothing if the set has no pairs in files of its own.
std::optional<ShownConversations> shown_pairs(const SourceConfig& source, const ShowRequest& request);

}  // namespace trainctl::dataset
