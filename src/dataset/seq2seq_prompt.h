// A source text, as a trained encoder-decoder has seen sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataset/config.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {

struct Seq2SeqPrompt {
  std::vector<std::int32_t> source;  // with the prefix before the text, cut as in training, and the token that ends it
  std::int32_t start = 0;            // what the decoder begins with
};

/// Returns the tokens of a source text, by the first pairs of texts of the dataset; nothing if it has none.
std::optional<Seq2SeqPrompt> seq2seq_prompt(const SourceConfig& source, const tokenizer::Tokenizer& tokenizer,
                                            const std::string& text);

}  // namespace trainctl::dataset
