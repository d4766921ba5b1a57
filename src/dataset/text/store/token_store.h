// Tokenised text on disk, mapped into memory: made once, read by every later run without copying.
//
// A directory <cache_dir>/<fingerprint>/ with
//   shard_00000.tokens …  token ids in order, 2 bytes each (4 where the vocabulary is larger), little-endian
//   documents.starts      uint64: the number of each document's first token, then the number of all tokens
//   words.starts          text_with_words: a bit for each token, lowest first: it begins a word
//   types.bytes           labelled_rows: a byte for each token, its type id
//   targets.int64         labelled_rows: one for each document: a class, or the bits of a double
//   labels.int32          labelled_tokens: one for each token: a class, or -100
//   index.json            what the rest must be: counts, checksums, times, fingerprint; written last
// The fingerprint is that of the tokenizer, the sources' content and how they are read; the directory is written beside
// its place and renamed, so it is whole or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/mapped_file.h"

namespace trainctl::dataset {

/// What is kept beside the ids.
enum class StoreKind { text, text_with_words, labelled_rows, labelled_tokens };

/// What is looked at when a store is opened. files_changed: checksums of files whose times aren't those noted.
enum class StoreCheck { files_changed, all_checksums };

class TokenStore {
 public:
  /// Damaged or incomplete directories are Errors.
  explicit TokenStore(const std::filesystem::path& directory, StoreCheck check = StoreCheck::files_changed);

  StoreKind kind() const { return kind_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_documents() const { return static_cast<std::int64_t>(document_starts_.size()) - 1; }
  std::int64_t num_bytes() const { return num_bytes_; }  // of the text
  double bytes_per_token() const { return static_cast<double>(num_bytes_) / static_cast<double>(num_tokens_); }
  const std::string& fingerprint() const { return fingerprint_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  /// What the text files showed, such as "texts.csv: the first line names the columns".
  const std::vector<std::string>& findings() const { return findings_; }
  /// Ids of tokens [begin, begin + to.size()).
  void copy(std::int64_t begin, std::span<std::int64_t> to) const;
  /// The number of the document that a token is of.
  std::int64_t document_of(std::int64_t token) const;
  std::int64_t document_start(std::int64_t document) const {
    return static_cast<std::int64_t>(document_starts_[static_cast<std::size_t>(document)]);
  }
  std::int64_t document_length(std::int64_t document) const {
    return document_start(document + 1) - document_start(document);
  }
  bool starts_word(std::int64_t token) const;
  void copy_types(std::int64_t begin, std::span<std::int64_t> to) const;
  void copy_labels(std::int64_t begin, std::span<std::int64_t> to) const;
  std::int64_t target_of(std::int64_t document) const;

 private:
  struct Index;
  void read_counts(const Index& index);
  void open_shards(const Index& index);
  void open_documents(const Index& index);
  void open_columns(const Index& index);

  StoreKind kind_ = StoreKind::text;
  std::vector<core::MappedFile> shards_;
  core::MappedFile documents_;
  core::MappedFile words_;
  core::MappedFile types_;
  core::MappedFile targets_;
  core::MappedFile labels_;
  std::span<const std::uint64_t> document_starts_;
  std::int64_t num_tokens_ = 0;
  std::int64_t tokens_per_shard_ = 1;
  std::int64_t bytes_per_id_ = 2;
  std::int64_t num_bytes_ = 0;
  std::string fingerprint_;
  std::vector<std::string> class_names_;
  std::vector<std::string> findings_;
};

}  // namespace trainctl::dataset
