// Stored pairs of token sequences as batches that are as wide as their longest source, and their longest target.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dataset/dataset.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"
#include "dataset/text/reading/text_reader.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {

/// A pair in a store of labelled_rows: the tokens of the source, then those of the target, each with the token that
/// ends it. The store's target of the row is the number of the source's tokens. The store has texts whole.
class StoredPair {
 public:
  StoredPair(const TokenStore& store, std::int64_t row)
      : store_(store),
        begin_(store.document_start(row)),
        source_length_(store.target_of(row)),
        target_length_(store.document_length(row) - source_length_) {}

  std::int64_t source_length() const { return source_length_; }
  std::int64_t target_length() const { return target_length_; }
  /// Copies as many of a text's tokens as there is room for. The token that ends the text is always one of them; the
  /// others are cut at `side`.
  void copy_source(std::span<std::int64_t> to, tokenizer::TruncationSide side) const {
    copy(begin_, source_length_, to, side);
  }
  void copy_target(std::span<std::int64_t> to, tokenizer::TruncationSide side) const {
    copy(begin_ + source_length_, target_length_, to, side);
  }

 private:
  void copy(std::int64_t begin, std::int64_t length, std::span<std::int64_t> to, tokenizer::TruncationSide side) const {
    const std::int64_t end = begin + length;
    store_.copy(side == tokenizer::TruncationSide::left ? end - std::ssize(to) : begin, to.first(to.size() - 1));
    store_.copy(end - 1, to.last(1));
  }

  const TokenStore& store_;
  std::int64_t begin_;
  std::int64_t source_length_;
  std::int64_t target_length_;
};

/// Calls `use` with the source and the target of each row of a file. A text without a visible character is an Error.
/// `tell` is that of TextFileOptions.
void read_pair_rows(const TextPairs& files, const std::string& file, const RowUse& use, const Tell& tell = {});

struct Seq2SeqRows {
  std::int64_t max_source_length = 0;
  std::int64_t max_target_length = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad = 0;
  std::int64_t start = 0;  // what the decoder begins with
  tokenizer::TruncationSide truncation_side = tokenizer::TruncationSide::right;
  Split split{};  // of the training pairs
};

/// Every StoredPair is a sample, cut to the longest that is permitted. The decoder's inputs are the targets, one place
/// later, behind `start`.
Sources seq2seq_sources(const PreparedStores& stores, const Seq2SeqRows& rows);

}  // namespace trainctl::dataset
