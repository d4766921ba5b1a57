// The files that a tokenizer may come in; load_tokenizer chooses among them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tokenizer/json_cursor.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::tokenizer {

/// Checked JSON of a file. `bytes` is its content.
Json parse_json(const std::filesystem::path& path, const std::string& bytes);

std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& path, const std::string& bytes);
/// WordPiece as BERT has it; tokenizer_config.json beside says whether it is cased.
std::unique_ptr<Tokenizer> read_vocab_txt(const std::filesystem::path& path);
/// GPT-2's way: byte-level BPE, with `<|endoftext|>` where the vocabulary has it.
std::unique_ptr<Tokenizer> read_vocab_and_merges(const std::filesystem::path& vocab,
                                                 const std::filesystem::path& merges);
/// Whether the content is lines of a token in base64 and its rank.
bool is_tiktoken(const std::string& bytes);
/// Llama 3's tokenizer.model.
std::unique_ptr<Tokenizer> read_tiktoken(const std::filesystem::path& path, const std::string& bytes);
std::unique_ptr<Tokenizer> read_sentence_piece(const std::filesystem::path& path, const std::string& bytes);

/// tokenizer_config.json in the same directory; an empty object where there is none.
Json config_beside(const std::filesystem::path& path);

}  // namespace trainctl::tokenizer
