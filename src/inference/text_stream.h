// Tokens into text as they come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace trainctl::inference {

/// Characters whose bytes are spread over several tokens come when they are whole.
class TextStream {
 public:
  /// `context`: the tokens before, which are not part of the text (but decide whether it begins with a space).
  TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::int32_t> context);

  /// The text that is certain once `id` has come; often "" or more than one character.
  std::string add(std::int32_t id);
  /// What is left at the end; bytes that never became a character are U+FFFD.
  std::string finish();

 private:
  std::string decode(std::size_t begin, std::size_t end) const;

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;
  std::size_t begin_;    // decoding starts here, a little before what is new, since tokens depend on their neighbours
  std::size_t emitted_;  // the text of the ids before this is out
};

}  // namespace trainctl::inference
