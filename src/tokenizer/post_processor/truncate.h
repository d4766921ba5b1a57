// Cutting and joining of encodings.
#pragma once

#include <vector>

#include "tokenizer/post_processor/post_processor.h"

namespace trainctl::tokenizer {

/// Cuts one text or two to at most `max_length` tokens together, the longer first ("longest_first").
void truncate(std::vector<PartEncoding>& parts, std::int64_t max_length, TruncationSide side);

void append_encoding(Encoding& to, const Encoding& from);

}  // namespace trainctl::tokenizer
