// From a pattern's matches to the parts of a text.
#pragma once

#include <vector>

#include "tokenizer/pre_tokenizer/pre_tokenizer.h"

namespace trainctl::tokenizer {

/// Whether the pattern says where the words are or, inverted, what is between them.
enum class Matched { delimiters, words };

/// Appends the parts of `piece` that its matches leave.
void split_at(const Piece& piece, const std::vector<Match>& matches, SplitBehavior behavior, Matched matched,
              std::vector<Piece>& parts);

SplitBehavior read_behavior(const JsonCursor& json);

}  // namespace trainctl::tokenizer
