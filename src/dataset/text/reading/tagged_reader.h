// Sentences of words with tags: CoNLL columns and JSON lines. Wrong content is an Error with file and line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataset/tagged_text_config.h"

namespace trainctl::dataset {

struct TaggedSentence {
  std::vector<std::string> words;
  std::vector<std::string> tags;      // one for each word; empty where they are numbers
  std::vector<std::int64_t> numbers;  // of jsonl: one for each word; empty where tags have names
  std::vector<std::int64_t> lines;    // where each word stands
  std::string file;

  /// "train.conll:17", of a word.
  std::string place(std::size_t word) const { return file + ":" + std::to_string(lines[word]); }
};

/// Calls `use` for each sentence of the files, in order. Files without any are Errors.
void read_tagged(const TaggedText& files, const std::function<void(TaggedSentence)>& use);

}  // namespace trainctl::dataset
