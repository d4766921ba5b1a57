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
/// WordPiece as BERT has it; tokenizer_config.json beside says whether it is cased. formats/side_files.h has the tokens
/// that files beside a vocabulary add.
std::unique_ptr<Tokenizer> read_vocab_txt(const std::filesystem::path& path);
/// Byte-level BPE of GPT-2, or as tokenizer_config.json or config.json beside says, of Qwen 2 or RoBERTa.
std::unique_ptr<Tokenizer> read_vocab_and_merges(const std::filesystem::path& vocab,
                                                 const std::filesystem::path& merges);
/// Whether the content is lines of a token in base64 and its rank.
bool is_tiktoken(const std::string& bytes);
/// Llama 3's tokenizer.model.
std::unique_ptr<Tokenizer> read_tiktoken(const std::filesystem::path& path, const std::string& bytes);
std::unique_ptr<Tokenizer> read_sentence_piece(const std::filesystem::path& path, const std::string& bytes);

}  // namespace trainctl::tokenizer
