// From a text to the pieces whose sum of scores is largest (https://arxiv.org/abs/1804.10959).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/model/model.h"

namespace trainctl::tokenizer {

struct ScoredPiece {
  std::string_view text;
  std::uint32_t id = 0;
  double score = 0;
};

/// Immutable. Takes the path that `tokenizers` takes among those with equal sums. Sums are in double precision, from
/// the start of the text. The first path to a place stays until a better one comes.
class Unigram {
 public:
  /// `unknown` is the id of characters that no piece has.
  Unigram(std::span<const ScoredPiece> pieces, std::uint32_t unknown, double unknown_score);

  /// Appends the pieces of a normalized text in valid UTF-8. Neighboring unknown characters are one token.
  void tokenize(std::string_view text, WordTokens& tokens) const;

 private:
  static constexpr std::int32_t kNone = -1;
  /// A place of the text, and the best path to it.
  struct Place {
    double score = 0;
    std::int32_t begin = kNone;  // of the last piece
    std::uint32_t id = 0;
  };

  std::vector<Place> best_places(std::string_view text) const;

  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // of a trie: node and byte to node
  std::vector<std::int32_t> piece_at_;                      // by node: a place in pieces_
  std::vector<std::pair<std::uint32_t, double>> pieces_;    // id and score
  std::uint32_t unknown_;
  double unknown_score_;
};

}  // namespace trainctl::tokenizer
