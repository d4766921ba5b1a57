// Tokens as pieces of text.
#pragma once

#include <string>
#include <vector>

#include "data_tools/preview.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::data_tools {

/// Tokens that are one character together are one piece. `notes`: of each token, or none. Without a tokenizer the
/// pieces are ids.
std::vector<Piece> pieces_of(const std::vector<dataset::ShownToken>& tokens, const std::vector<std::string>& notes,
                             const tokenizer::Tokenizer* tokenizer);

}  // namespace trainctl::data_tools
