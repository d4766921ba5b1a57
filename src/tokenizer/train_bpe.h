// Learns a byte-level BPE from text, merge for merge as Hugging Face's BpeTrainer does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::tokenizer {

struct BpeTraining {
  std::int64_t vocab_size = 32000;                           // special tokens and the 256 bytes included
  std::int64_t min_frequency = 2;                            // of a pair that is merged
  std::vector<std::string> special_tokens{"<|endoftext|>"};  // first in the vocabulary
};

/// The tokenizer.json (GPT-2's way of splitting) learnt from the files, each of which is one text. Fewer tokens than
/// asked for come of too little text.
std::string train_bpe(const std::vector<std::filesystem::path>& files, const BpeTraining& training);

}  // namespace trainctl::tokenizer
