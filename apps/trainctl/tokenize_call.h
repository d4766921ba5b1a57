// From the options of `trainctl tokenize` to the library that does the work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/train_bpe.h"

namespace trainctl::cli {

struct TokenizeOptions {
  std::string tokenizer;
  std::vector<std::string> files;
  std::string special_tokens;
  std::optional<std::int64_t> max_length;
  bool tokens = false;
  bool decode = false;
  bool train = false;
  tokenizer::BpeTraining training;
  std::string output;
};

/// The library, and its only exported symbol: `int trainctl_tokenize_main(const TokenizeOptions&)`.
inline constexpr const char* kTokenizeFile = "libtrainctl_tokenize.so";
inline constexpr const char* kTokenizeMain = "trainctl_tokenize_main";
using TokenizeMain = int (*)(const TokenizeOptions&);

}  // namespace trainctl::cli
