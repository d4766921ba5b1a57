// Sequences of one length, cut out of tokenised text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dataset/dataset.h"
#include "dataset/image_set.h"
#include "dataset/text/token_store.h"

namespace trainctl {

/// A part of a store's tokens.
struct TokenRange {
  std::shared_ptr<const TokenStore> store;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

struct TokenRanges {
  TokenRange train;
  TokenRange eval;  // without a store: no evaluation
};

/// What both kinds of language modelling say about their text.
struct LanguageText {
  const TextFiles& train;
  const std::optional<TextFiles>& eval;
  double eval_fraction;
  const std::string& cache_dir;
};

/// Opens the stores, which are made where they aren't there.
TokenRanges open_ranges(const LanguageText& text, const Tokenizer& tokenizer, TokenMarks marks,
                        const LoaderOptions& options);

/// `bytes`, or a file or directory.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& name);

}  // namespace trainctl
