// Sequences of one length, cut out of tokenised text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dataset/chat_config.h"
#include "dataset/dataset.h"
#include "dataset/preference_config.h"
#include "dataset/sampler/split.h"
#include "dataset/text/store/prepare_store.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {

/// A part of a store's tokens.
struct TokenRange {
  std::shared_ptr<const TokenStore> store{};
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name{};  // "the training text"
  std::int64_t size() const { return end - begin; }
};

struct TokenRanges {
  TokenRange train;
  TokenRange eval;  // without a store: no evaluation
  TokenRange test;  // without a store: no test
};

struct TextRequest {
  const TextFiles& files;
  const tokenizer::Tokenizer& tokenizer;
  StoreKind kind = StoreKind::text;  // or text_with_words
  std::filesystem::path cache_dir;
};

/// The documents of the files, tokenised.
PreparedStore prepare_text(const TextRequest& request, const PrepareOptions& options);

/// The stores of a dataset's sets.
struct PreparedStores {
  PreparedStore train;
  std::optional<PreparedStore> eval;
  std::optional<PreparedStore> test;
};
PreparedStores prepare_stores(const TextLmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);
PreparedStores prepare_stores(const TextMlmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);
PreparedStores prepare_stores(const TextClassificationConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);
PreparedStores prepare_stores(const TextTokenClassificationConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);

PreparedStores prepare_stores(const TextSeq2SeqConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);

PreparedStores prepare_stores(const ChatConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);
PreparedStores prepare_stores(const PreferenceConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);

/// Returns the training text, and the other texts or parts of the training text. The end is for evaluation; what
/// stands before this end is for tests.
TokenRanges token_ranges(const PreparedStores& stores, const Split& split);

/// Too few tokens for a sequence are an Error.
void check_sequences(const TokenRange& range, std::int64_t least, std::int64_t length);

/// `bytes`, or a file or directory.
std::shared_ptr<const tokenizer::Tokenizer> open_tokenizer(const std::string& name);

/// Refuses a dataset.max_length below the number of special tokens that the tokenizer puts around a row's texts: these
/// tokens can't be cut.
void check_max_length(const tokenizer::Tokenizer& tokenizer, std::int64_t max_length, std::int64_t texts_per_row);

/// For opening a dataset.
PrepareOptions prepare_options(const LoaderOptions& options);

}  // namespace trainctl::dataset
