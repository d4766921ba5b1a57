// A conversation as tokens, with the ones that are learned.
#pragma once

#include <cstdint>
#include <vector>

#include "dataset/chat/trained_spans.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {

/// Tokens, and for each its own id where it is learned, or -100.
struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;
};

/// A token is learned if a byte of it is. A conversation of which no token is learned, or every token although
/// `loss_on` isn't `all`, is an Error.
ChatTokens tokenize_conversation(const ChatFormat& format, const tokenizer::Tokenizer& tokenizer,
                                 const Conversation& conversation);

}  // namespace trainctl::dataset
