// The tokenizer that tokenizer.json describes: added tokens, normalizer, pre-tokenizers, model, post-processor,
// decoder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/decoder/decoder.h"
#include "tokenizer/model/model.h"
#include "tokenizer/normalizer/normalizer.h"
#include "tokenizer/pipeline/added_tokens.h"
#include "tokenizer/post_processor/post_processor.h"
#include "tokenizer/post_processor/truncate.h"
#include "tokenizer/pre_tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::tokenizer {

struct PipelineParts {
  SharedCharacters characters;
  std::vector<AddedToken> added{};
  std::unique_ptr<Normalizer> normalizer{};  // null: none
  PreTokenizers pre_tokenizers{};
  std::unique_ptr<Model> model{};
  std::unique_ptr<PostProcessor> post_processor{};  // null: none
  std::unique_ptr<Decoder> decoder{};               // null: tokens with spaces between
  SpecialTokenIds roles{};
  TruncationSide truncation_side = TruncationSide::right;
  bool cleans_up = false;  // a decoded text
  std::string fingerprint{};
  bool is_changed_by_side_files = false;  // of a tokenizer.json
};

/// Appends to the parts' fingerprint that of the roles and of the tokens around texts.
std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts);

/// Returns a text that differs where a role or a token around one text or two does. Files beside a vocabulary give
/// them.
std::string fingerprint_of_special_tokens(const Tokenizer& tokenizer);

/// What the names of tokens say about their roles ("[PAD]", "<s>", …).
SpecialTokenIds roles_by_name(const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                              std::optional<std::uint32_t> unknown);

}  // namespace trainctl::tokenizer
