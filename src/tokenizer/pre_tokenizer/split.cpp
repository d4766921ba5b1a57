#include "tokenizer/pre_tokenizer/split.h"

#include <algorithm>

namespace trainctl::tokenizer {
namespace {

struct Section {
  std::size_t begin, end;
  bool is_delimiter;
};

/// Lists the matches and the text between them.
std::vector<Section> sections(std::size_t size, const std::vector<Match>& matches, Matched matched) {
  std::vector<Section> all;
  all.reserve(2 * matches.size() + 1);
  const bool delimiter = matched == Matched::delimiters;
  std::size_t end = 0;
  for (const Match& match : matches) {
    if (match.begin != end) all.push_back({end, match.begin, !delimiter});
    all.push_back({match.begin, match.end, delimiter});
    end = match.end;
  }
  if (end != size) all.push_back({end, size, !delimiter});
  return all;
}

std::vector<Section> merge_equal(const std::vector<Section>& all) {
  std::vector<Section> merged;
  bool previous = false;
  for (const Section& section : all) {
    if (section.is_delimiter == previous && !merged.empty())
      merged.back().end = section.end;
    else
      merged.push_back(section);
    previous = section.is_delimiter;
  }
  return merged;
}

std::vector<Section> merge_with_previous(const std::vector<Section>& all) {
  std::vector<Section> merged;
  bool previous = false;
  for (const Section& section : all) {
    if (section.is_delimiter && !previous && !merged.empty())
      merged.back().end = section.end;
    else
      merged.push_back(section);
    previous = section.is_delimiter;
  }
  return merged;
}

std::vector<Section> merge_with_next(std::vector<Section> all) {
  std::vector<Section> merged;
  bool previous = false;
  std::reverse(all.begin(), all.end());
  for (const Section& section : all) {
    if (section.is_delimiter && !previous && !merged.empty())
      merged.back().begin = section.begin;
    else
      merged.push_back(section);
    previous = section.is_delimiter;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

void append_sections(const Piece& piece, const std::vector<Section>& all, std::vector<Piece>& parts) {
  for (const Section& section : all) parts.push_back(piece.part(section.begin, section.end));
}

}  // namespace

void split_at(const Piece& piece, const std::vector<Match>& matches, SplitBehavior behavior, Matched matched,
              std::vector<Piece>& parts) {
  const std::size_t size = piece.text.size();
  switch (behavior) {
    case SplitBehavior::isolated: {
      std::size_t end = 0;
      for (const Match& match : matches) {
        if (match.begin != end) parts.push_back(piece.part(end, match.begin));
        parts.push_back(piece.part(match.begin, match.end));
        end = match.end;
      }
      if (end != size) parts.push_back(piece.part(end, size));
      return;
    }
    case SplitBehavior::removed:
      for (const Section& section : sections(size, matches, matched))
        if (!section.is_delimiter) parts.push_back(piece.part(section.begin, section.end));
      return;
    case SplitBehavior::contiguous:
      return append_sections(piece, merge_equal(sections(size, matches, matched)), parts);
    case SplitBehavior::merged_with_previous:
      return append_sections(piece, merge_with_previous(sections(size, matches, matched)), parts);
    case SplitBehavior::merged_with_next:
      return append_sections(piece, merge_with_next(sections(size, matches, matched)), parts);
  }
}

SplitBehavior read_behavior(const JsonCursor& json) {
  const std::string name = json.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw json.error("unknown behavior '" + name + "'");
}

}  // namespace trainctl::tokenizer
