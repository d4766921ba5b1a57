// Where a long text may be cut so that its parts, tokenised apart, give the tokens of the whole.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "dataset/text/store/store_writer.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {

/// Tokenises one text, without ends of documents.
using Tokenize = std::function<StoreChunk(std::string_view text)>;

/// Returns the text in parts of about `part_bytes`, or whole if no cut is safe.
///
/// A cut is tried before the white space between two ASCII letters. Every pre-tokenizer that splits at white space ends
/// a word there. The tokens of that word, and the begin of the next word, depend on nothing across the cut. Each cut is
/// checked: some KiB around it must give the same tokens apart as together. A tokenizer of another kind fails the check
/// and gets the whole text (SentencePiece puts a space before every text).
std::vector<std::string_view> split_text(std::string_view text, std::size_t part_bytes, const Tokenize& tokenize);

}  // namespace trainctl::dataset
