// Sequences of one length, cut out of tokenised text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dataset/dataset.h"

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
};

struct TextRequest {
  const TextFiles& files;
  const tokenizer::Tokenizer& tokenizer;
  StoreKind kind = StoreKind::text;  // or text_with_words
  std::filesystem::path cache_dir;
};

/// The documents of the files, tokenised.
PreparedStore prepare_text(const TextRequest& request, const PrepareOptions& options);

/// The stores of both parts of a dataset.
struct PreparedStores {
  PreparedStore train;
  std::optional<PreparedStore> eval;
};
PreparedStores prepare_stores(const TextLmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);
PreparedStores prepare_stores(const TextMlmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);
PreparedStores prepare_stores(const TextClassificationConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);
PreparedStores prepare_stores(const TextTokenClassificationConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options);

/// The training text, and the evaluation text or the end of the training text.
TokenRanges token_ranges(const PreparedStores& stores, double eval_fraction);

/// Too few tokens for a sequence are an Error.
void check_sequences(const TokenRange& range, std::int64_t least, std::int64_t length);

/// `bytes`, or a file or directory.
std::shared_ptr<const tokenizer::Tokenizer> open_tokenizer(const std::string& name);

/// For opening a dataset.
PrepareOptions prepare_options(const LoaderOptions& options);

}  // namespace trainctl::dataset
