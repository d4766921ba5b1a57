// Tokenised text on disk, mapped into memory: made once, read by every later run without copying.
//
// A directory <cache_dir>/<fingerprint>/ with
//   shard_00000.tokens …  token ids in order, 2 bytes each (4 where the vocabulary is larger), little-endian
//   documents.starts      uint64: the number of each document's first token, then the number of all tokens
//   words.starts          a bit for each token, lowest first: it begins a word (only where it was asked for)
//   index.json            what the rest must be: counts, sizes, fingerprint; written last
// The fingerprint is that of the tokenizer, the sources' content and how they are read; the directory is written beside
// its place and renamed, so it is whole or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "dataset/config.h"
#include "tokenizer/tokenizer.h"

namespace trainctl {

/// What is kept beside the ids.
enum class TokenMarks { none, word_starts };

class TokenStore {
 public:
  /// Damaged or incomplete directories are Errors.
  explicit TokenStore(const std::filesystem::path& directory);

  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_documents() const { return static_cast<std::int64_t>(document_starts_.size()) - 1; }
  double bytes_per_token() const { return bytes_per_token_; }
  const std::string& fingerprint() const { return fingerprint_; }
  /// Ids of tokens [begin, begin + to.size()).
  void copy(std::int64_t begin, std::span<std::int64_t> to) const;
  /// The number of the document that a token is of.
  std::int64_t document_of(std::int64_t token) const;
  std::int64_t document_start(std::int64_t document) const {
    return static_cast<std::int64_t>(document_starts_[static_cast<std::size_t>(document)]);
  }
  bool starts_word(std::int64_t token) const;

 private:
  std::vector<MappedFile> shards_;
  MappedFile documents_;
  MappedFile words_;
  std::span<const std::uint64_t> document_starts_;
  std::int64_t num_tokens_ = 0;
  std::int64_t tokens_per_shard_ = 1;
  std::int64_t bytes_per_id_ = 2;
  double bytes_per_token_ = 0;
  std::string fingerprint_;
};

struct StoreRequest {
  const TextFiles& files;
  const Tokenizer& tokenizer;
  TokenMarks marks = TokenMarks::none;
  std::filesystem::path cache_dir;
  /// Told what is being made, when it isn't there.
  std::function<void(const std::string&)> tell{};
};

/// The directory of the tokenised files, made now (by all cores) if it isn't there.
std::filesystem::path prepare_tokens(const StoreRequest& request);

}  // namespace trainctl
