#include "tokenizer/model/unigram.h"

#include <algorithm>

namespace trainctl::tokenizer {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8U | static_cast<unsigned char>(byte);
}

/// Returns the bytes of the character that begins here.
std::size_t character_size(std::string_view text, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return end - begin;
}

}  // namespace

Unigram::Unigram(std::span<const ScoredPiece> pieces, std::uint32_t unknown, double unknown_score)
    : piece_at_{kNone}, unknown_(unknown), unknown_score_(unknown_score) {
  for (const ScoredPiece& piece : pieces) {
    std::uint32_t node = 0;
    for (const char byte : piece.text) {
      const auto [found, is_new] = edges_.try_emplace(edge(node, byte), static_cast<std::uint32_t>(piece_at_.size()));
      if (is_new) piece_at_.push_back(kNone);
      node = found->second;
    }
    piece_at_[node] = static_cast<std::int32_t>(pieces_.size());
    pieces_.emplace_back(piece.id, piece.score);
  }
}

std::vector<Unigram::Place> Unigram::best_places(std::string_view text) const {
  std::vector<Place> places(text.size() + 1);
  for (std::size_t begin = 0; begin < text.size();) {
    const double here = places[begin].score;
    const auto reach = [&](std::size_t end, std::uint32_t id, double score) {
      Place& place = places[end];
      if (place.begin == kNone || score > place.score) place = {score, static_cast<std::int32_t>(begin), id};
    };
    const std::size_t size = character_size(text, begin);
    bool is_known = false;
    std::uint32_t node = 0;
    for (std::size_t end = begin; end < text.size();) {
      const auto found = edges_.find(edge(node, text[end++]));
      if (found == edges_.end()) break;
      node = found->second;
      if (piece_at_[node] == kNone) continue;
      const auto& [id, score] = pieces_[static_cast<std::size_t>(piece_at_[node])];
      reach(end, id, score + here);
      is_known = is_known || end == begin + size;
    }
    if (!is_known) reach(begin + size, unknown_, unknown_score_ + here);
    begin += size;
  }
  return places;
}

void Unigram::tokenize(std::string_view text, WordTokens& tokens) const {
  const std::vector<Place> places = best_places(text);
  WordTokens backwards;
  for (std::size_t end = text.size(); end > 0; end = static_cast<std::size_t>(places[end].begin)) {
    const bool goes_on = places[end].id == unknown_ && !backwards.ids.empty() && backwards.ids.back() == unknown_;
    if (!goes_on) backwards.add(places[end].id, end);
  }
  tokens.ids.insert(tokens.ids.end(), backwards.ids.rbegin(), backwards.ids.rend());
  tokens.ends.insert(tokens.ends.end(), backwards.ends.rbegin(), backwards.ends.rend());
}

}  // namespace trainctl::tokenizer
