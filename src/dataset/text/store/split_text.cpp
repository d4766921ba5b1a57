#include "dataset/text/store/split_text.h"

#include <algorithm>

namespace trainctl::dataset {
namespace {

constexpr std::size_t kAround = 2048;       // bytes on each side of a cut that must agree
constexpr std::size_t kMostTries = 16;      // cuts that are tried one after another before the rest is left whole
constexpr std::size_t kFarthest = 1 << 18;  // how far from its place a cut is looked for

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_boundary(std::string_view text, std::size_t at) {
  return (text[at] == ' ' || text[at] == '\n') && is_letter(text[at - 1]) && is_letter(text[at + 1]);
}

/// Returns the next boundary from `from` on; npos if there is none near.
std::size_t next_boundary(std::string_view text, std::size_t from) {
  const std::size_t last = std::min(text.size() - 1, from + kFarthest);
  for (std::size_t at = std::max<std::size_t>(from, 1); at < last; ++at)
    if (is_boundary(text, at)) return at;
  return std::string_view::npos;
}

/// Returns the beginning of a character, at or before `at`.
std::size_t character_begin(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  return at;
}

bool agrees(std::string_view text, std::size_t cut, const Tokenize& tokenize) {
  const std::size_t begin = character_begin(text, cut - std::min(cut, kAround));
  const std::size_t end = character_begin(text, std::min(text.size(), cut + kAround));
  const StoreChunk whole = tokenize(text.substr(begin, end - begin));
  StoreChunk parts = tokenize(text.substr(begin, cut - begin));
  const StoreChunk second = tokenize(text.substr(cut, end - cut));
  parts.ids.insert(parts.ids.end(), second.ids.begin(), second.ids.end());
  parts.word_starts.insert(parts.word_starts.end(), second.word_starts.begin(), second.word_starts.end());
  return whole.ids == parts.ids && whole.word_starts == parts.word_starts;
}

}  // namespace

std::vector<std::string_view> split_text(std::string_view text, std::size_t part_bytes, const Tokenize& tokenize) {
  std::vector<std::string_view> parts;
  std::size_t failed = 0;  // since the last cut
  std::size_t begin = 0;   // of the part
  for (std::size_t from = part_bytes; from + part_bytes / 2 < text.size() && failed < kMostTries;) {
    const std::size_t cut = next_boundary(text, from);
    if (cut == std::string_view::npos || !agrees(text, cut, tokenize)) {
      ++failed;
      from = cut == std::string_view::npos ? from + kFarthest : cut + 1;
      continue;
    }
    parts.push_back(text.substr(begin, cut - begin));
    begin = cut;
    from = cut + part_bytes;
    failed = 0;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace trainctl::dataset
