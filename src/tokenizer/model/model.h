// From one word to tokens: BPE, WordPiece, a plain list of words.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/model/vocabulary.h"

namespace trainctl::tokenizer {

/// Tokens of a word; each begins where the one before it ended.
struct WordTokens {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> ends;  // in bytes of the word
  void clear() {
    ids.clear();
    ends.clear();
  }
  void add(std::uint32_t id, std::size_t end) {
    ids.push_back(id);
    ends.push_back(static_cast<std::uint32_t>(end));
  }
};

/// What one call of a model needs besides the word; kept from call to call, one thread at a time.
struct ModelRoom {
  struct Symbol {
    std::uint32_t id;
    std::uint32_t length;
    std::int32_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank, position, id;
  };
  /// A word seen before and what became of it.
  struct Remembered {
    static constexpr std::size_t kMaxBytes = 40, kMaxTokens = 10;
    std::uint64_t hash = 0;
    std::uint8_t size = 0, count = 0;
    std::array<char, kMaxBytes> bytes;
    std::array<std::uint8_t, kMaxTokens> lengths;
    std::array<std::uint32_t, kMaxTokens> ids;
  };
  static constexpr std::size_t kMemory = 1 << 14;

  std::vector<Symbol> symbols;
  std::vector<std::uint32_t> ranks;
  std::vector<Candidate> queue;
  std::vector<Remembered> memory;  // by hash; empty until needed
};

/// Immutable.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the word's tokens. The word isn't empty.
  virtual void tokenize(std::string_view word, WordTokens& tokens, ModelRoom& room) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::optional<std::uint32_t> unknown() const = 0;
};

/// Whether words come as bytes, which the vocabulary writes as GPT-2's characters.
enum class WordForm { characters, bytes };

struct BpeOptions {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::uint32_t> ranks{};  // of the merges; none: their order
  std::string where;                   // for errors
  std::optional<std::string> unknown{};
  std::string continuing_prefix{};
  std::string end_suffix{};
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  WordForm form = WordForm::characters;
};
std::unique_ptr<Model> bpe_model(BpeOptions options);
/// Whether every byte has its character in a vocabulary, so that words may come as bytes.
bool has_all_bytes(const Vocabulary& vocabulary);

struct WordPieceOptions {
  Vocabulary vocabulary;
  std::string unknown = "[UNK]";
  std::string continuing_prefix = "##";
  std::uint64_t max_chars = 100;
  std::string where;
};
std::unique_ptr<Model> word_piece_model(WordPieceOptions options);

/// A model of a tokenizer.json; bytes are handed to it if `byte_level` stays true.
std::unique_ptr<Model> read_model(const JsonCursor& json, bool& byte_level);

}  // namespace trainctl::tokenizer
