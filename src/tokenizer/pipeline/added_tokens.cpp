#include "tokenizer/pipeline/added_tokens.h"

#include <algorithm>

namespace trainctl::tokenizer {

TokenFinder::TokenFinder(const std::vector<AddedToken>& tokens, SharedCharacters characters)
    : nodes_(1), characters_(std::move(characters)) {
  for (const AddedToken& token : tokens) {
    if (!token.pattern.empty()) add(token.pattern, static_cast<std::int32_t>(stripping_.size()));
    stripping_.push_back({token.single_word, token.left_strip, token.right_strip});
  }
}

void TokenFinder::add(std::string_view pattern, std::int32_t token) {
  std::uint32_t node = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<unsigned char>(c);
    auto& edges = nodes_[node].edges;
    auto edge =
        std::lower_bound(edges.begin(), edges.end(), byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
    if (edge == edges.end() || edge->byte != byte) {
      const auto next = static_cast<std::uint32_t>(nodes_.size());
      edges.insert(edge, {byte, next});
      nodes_.emplace_back();
      node = next;
    } else {
      node = edge->node;
    }
  }
  nodes_[node].token = token;
}

const TokenFinder::Edge* TokenFinder::follow(const Node& node, char c) const {
  const auto byte = static_cast<unsigned char>(c);
  const auto edge = std::lower_bound(node.edges.begin(), node.edges.end(), byte,
                                     [](const Edge& e, unsigned char b) { return e.byte < b; });
  return edge == node.edges.end() || edge->byte != byte ? nullptr : &*edge;
}

TokenFinder::Found TokenFinder::longest_at(std::string_view text, std::size_t at) const {
  Found found{at, kNoToken};
  const Node* node = nodes_.data();
  while (at < text.size()) {
    const Edge* const edge = follow(*node, text[at++]);
    if (edge == nullptr) break;
    node = &nodes_[edge->node];
    if (node->token != kNoToken) found = {at, node->token};
  }
  return found;
}

bool TokenFinder::is_kind_before(std::string_view text, std::size_t at, Kind kind) const {
  return at > 0 && characters_->is(core::decode_before(text, at).code, kind);
}

bool TokenFinder::is_kind_at(std::string_view text, std::size_t at, Kind kind) const {
  return at < text.size() && characters_->is(core::decode_at(text, at).code, kind);
}

void TokenFinder::split(const Piece& piece, std::vector<Piece>& parts) const {
  const std::string_view text = piece.text;
  std::size_t done = 0;
  const std::vector<Edge>& first = nodes_[0].edges;
  for (std::size_t at = 0; at < text.size() && !first.empty();) {
    if (first.size() == 1) {  // usual: all tokens begin with < or [
      at = std::min(text.find(static_cast<char>(first[0].byte), at), text.size());
      if (at == text.size()) break;
    }
    const Found found = longest_at(text, at);
    if (found.token == kNoToken) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = found.end;
    at = found.end;
    const Stripping& how = stripping_[static_cast<std::size_t>(found.token)];
    if (how.single_word && (is_kind_before(text, begin, Kind::word) || is_kind_at(text, end, Kind::word))) continue;
    if (how.left) {
      while (is_kind_before(text, begin, Kind::space)) begin -= core::decode_before(text, begin).length;
      begin = std::max(begin, done);
    }
    while (how.right && is_kind_at(text, end, Kind::space)) end += core::char_length(text[end]);
    if (done < begin) parts.push_back(piece.part(done, begin));
    Piece token = piece.part(begin, end);
    token.token = found.token;
    parts.push_back(token);
    done = end;
  }
  if (done < text.size()) parts.push_back(piece.part(done, text.size()));
}

}  // namespace trainctl::tokenizer
