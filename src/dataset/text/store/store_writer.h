// Writes the files of a TokenStore.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/text/store/token_store.h"

namespace trainctl::dataset {

inline constexpr int kStoreVersion = 2;
/// In the order of StoreKind.
inline constexpr std::array<std::string_view, 4> kStoreKindNames = {"text", "text_with_words", "labelled_rows",
                                                                    "labelled_tokens"};

/// Tokens of some documents, and what is kept beside them. Tokens after the last end belong to a document that goes on
/// in the next chunk.
struct StoreChunk {
  std::vector<std::int32_t> ids{};
  std::vector<std::size_t> document_ends{};  // in ids
  std::int64_t num_bytes = 0;                // of the text
  std::vector<std::uint8_t> word_starts{};   // text_with_words: of each id, 1 where it begins a word
  std::vector<std::uint8_t> types{};         // labelled_rows: of each id
  std::vector<std::int64_t> targets{};       // labelled_rows: of each document
  std::vector<std::int32_t> labels{};        // labelled_tokens: of each id
};

struct StoreLayout {
  StoreKind kind = StoreKind::text;
  std::int64_t vocab_size = 0;
};

class StoreWriter {
 public:
  /// Makes the directory.
  StoreWriter(std::filesystem::path directory, StoreLayout layout);
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  /// Sets the names of the classes of the targets or labels that follow.
  void set_class_names(std::vector<std::string> names) { class_names_ = std::move(names); }
  /// Adds what the files showed while they were read, to be told to each user of the store.
  void add_finding(std::string finding) { findings_.push_back(std::move(finding)); }
  /// In the order of the text. Documents without tokens are left out, where they have no target.
  void add(const StoreChunk& chunk);
  /// Writes what is left, and the index. Without tokens an Error.
  void finish(const std::string& fingerprint);

 private:
  class Part;
  Part& part(const std::string& name);
  void add_ids(const std::vector<std::int32_t>& ids);
  void add_words(const std::vector<std::uint8_t>& starts);
  void write_index(const std::string& fingerprint);

  std::filesystem::path directory_;
  StoreLayout layout_;
  std::vector<std::string> class_names_;
  std::vector<std::string> findings_;
  std::int64_t bytes_per_id_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::string> shards_;
  std::vector<std::uint64_t> starts_ = {0};
  std::vector<std::int64_t> targets_;
  unsigned words_ = 0;  // the byte of words.starts that isn't full
  std::int64_t num_tokens_ = 0;
  std::int64_t num_words_ = 0;
  std::int64_t num_bytes_ = 0;
};

}  // namespace trainctl::dataset
