// A preview for the terminal.
#include <array>
#include <numeric>

#include "core/terminal.h"
#include "core/text.h"
#include "data_tools/preview.h"

namespace trainctl::data_tools {
namespace {

using dataset::TokenFate;

constexpr std::size_t kMostPaddingShown = 1;

/// How a run of tokens of one fate begins and ends.
struct Mark {
  std::string_view begin;
  std::string_view end;
};

Mark mark_of(TokenFate fate, PreviewMarks marks) {
  const bool colors = marks == PreviewMarks::colors;
  switch (fate) {
    case TokenFate::learned:
      return colors ? Mark{"\x1b[30;42m", "\x1b[0m"} : Mark{"[[", "]]"};
    case TokenFate::cut:
      return colors ? Mark{"\x1b[9;31m", "\x1b[0m"} : Mark{"{{cut: ", "}}"};
    case TokenFate::padding:
      return colors ? Mark{"\x1b[2m", "\x1b[0m"} : Mark{"", ""};
    case TokenFate::seen:
      break;
  }
  return {"", ""};
}

/// The text without control characters, which a terminal would obey. A line's end ends the color too, so that it does
/// not fill the rest of the line.
std::string printable(const std::string& text, const Mark& mark) {
  std::string out;
  for (const char byte : core::without_controls(text)) {
    if (byte == '\n' && mark.begin.starts_with('\x1b'))
      out += std::string(mark.end) + "\n" + std::string(mark.begin);
    else
      out += byte;
  }
  return out;
}

std::string text_of(const std::vector<Piece>& pieces, PreviewMarks marks) {
  std::string out;
  for (std::size_t begin = 0; begin < pieces.size();) {
    std::size_t end = begin;
    while (end < pieces.size() && pieces[end].fate == pieces[begin].fate) ++end;
    const Mark mark = mark_of(pieces[begin].fate, marks);
    out += mark.begin;
    const bool is_padding = pieces[begin].fate == TokenFate::padding;
    for (std::size_t i = begin; i < (is_padding ? begin + kMostPaddingShown : end); ++i) {
      out += printable(pieces[i].text, mark);
      if (!pieces[i].note.empty()) out += "(" + printable(pieces[i].note, mark) + ")";
    }
    if (is_padding) out += " × " + core::format_count(end - begin);
    out += mark.end;
    begin = end;
  }
  return out;
}

std::string legend(PreviewMarks marks) {
  std::string out = "marks: ";
  for (const auto& [fate, name] : {std::pair(TokenFate::learned, "learned"), std::pair(TokenFate::seen, "context"),
                                   std::pair(TokenFate::cut, marks == PreviewMarks::colors ? "cut" : "…"),
                                   std::pair(TokenFate::padding, "padding")}) {
    const Mark mark = mark_of(fate, marks);
    out += std::string(mark.begin) + name + std::string(mark.end) + " ";
  }
  return out + "\n";
}

std::string shares(const Preview& preview) {
  const std::int64_t total = std::accumulate(preview.num_tokens.begin(), preview.num_tokens.end(), std::int64_t{0});
  if (total == 0) return "";
  constexpr std::array<const char*, dataset::kNumFates> kNames = {"learned", "context", "cut", "padding"};
  std::string out =
      core::format_count(total) + " tokens of " + core::format_count(preview.num_looked_at) + " samples: ";
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (i != static_cast<std::size_t>(TokenFate::cut) || preview.knows_cut)
      out += (i > 0 ? ", " : "") +
             core::format_percent(static_cast<double>(preview.num_tokens.at(i)) / static_cast<double>(total), 1) + " " +
             kNames.at(i);
  out += "\nlongest:";
  for (const dataset::LongText& text : preview.longest)
    out += " " + core::without_controls(text.place) + " " + core::format_count(text.num_tokens) + ";";
  out.back() = '\n';
  return out;
}

}  // namespace

std::string preview_text(const Preview& preview, PreviewMarks marks) {
  std::string out = preview.kind + ", " + preview.set + "\n";
  for (const PreviewSample& sample : preview.samples) {
    if (!sample.picture.empty()) {
      out += core::without_controls(sample.title) + "\n";
      continue;
    }
    out += "\n── " + core::without_controls(sample.title) + " ──\n";
    for (const auto& [name, value] : sample.columns) out += core::without_controls("  " + name + ": " + value) + "\n";
    if (!sample.pieces.empty()) out += text_of(sample.pieces, marks) + "\n";
  }
  const bool has_pictures = !preview.samples.empty() && !preview.samples.front().picture.empty();
  if (has_pictures) out += "--html writes a page with these pictures\n";
  if (!has_pictures) out += "\n" + shares(preview);
  for (const std::string& remark : preview.remarks) out += core::without_controls(remark) + "\n";
  const bool has_texts = !preview.samples.empty() && !preview.samples.front().pieces.empty();
  return has_texts ? out + legend(marks) : out;
}

}  // namespace trainctl::data_tools
