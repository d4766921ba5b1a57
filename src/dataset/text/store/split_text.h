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

/// The text in parts of about `part_bytes`, or whole where no cut is safe.
///
/// A cut is tried before the white space between two ASCII letters, where pre-tokenizers of every kind that splits at
/// white space end a word: such a word's tokens, and where the next word begins, depend on nothing across the cut.
/// Whether the tokenizer at hand is of such a kind is tried at each cut: some KiB around it must give the same tokens
/// apart as together. Those that aren't (SentencePiece puts a space before every text) fail that, and get the whole.
std::vector<std::string_view> split_text(std::string_view text, std::size_t part_bytes, const Tokenize& tokenize);

}  // namespace trainctl::dataset
