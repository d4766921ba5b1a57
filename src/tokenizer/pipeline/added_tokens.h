// Tokens beside the model's: found in the text before anything is split, some before it is normalized, some after.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/normalizer/normalizer.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/normalized_string.h"

namespace trainctl::tokenizer {

struct AddedToken {
  std::uint32_t id = 0;
  std::string content;
  std::string pattern;  // what is looked for: the content, normalized where `normalized` says so
  bool single_word = false;
  bool left_strip = false;  // takes the spaces before it along
  bool right_strip = false;
  bool normalized = false;  // looked for in the normalized text
  bool special = false;
};

/// Finds tokens: the leftmost, of those the longest.
class TokenFinder {
 public:
  TokenFinder(const std::vector<AddedToken>& tokens, SharedCharacters characters);
  bool empty() const { return nodes_.size() == 1; }
  /// Appends the piece's parts; tokens have their number in `tokens` as Piece::token. None is empty.
  void split(const Piece& piece, std::vector<Piece>& parts) const;

 private:
  struct Edge {
    unsigned char byte;
    std::uint32_t node;
  };
  struct Node {
    std::vector<Edge> edges;  // in order of bytes
    std::int32_t token = kNoToken;
  };
  struct Found {
    std::size_t end;
    std::int32_t token;
  };
  struct Stripping {
    bool single_word, left, right;
  };
  void add(std::string_view pattern, std::int32_t token);
  const Edge* follow(const Node& node, char byte) const;
  Found longest_at(std::string_view text, std::size_t at) const;
  bool is_kind_before(std::string_view text, std::size_t at, Kind kind) const;
  bool is_kind_at(std::string_view text, std::size_t at, Kind kind) const;

  std::vector<Node> nodes_;  // the root first
  std::vector<Stripping> stripping_;
  SharedCharacters characters_;
};

}  // namespace trainctl::tokenizer
