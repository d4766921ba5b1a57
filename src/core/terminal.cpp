#include "core/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdarg>

#include "core/utf8.h"

namespace trainctl::core {
namespace {

/// Returns the bytes of the first `columns` characters of UTF-8 text.
std::size_t bytes_of(std::string_view text, std::int64_t columns) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool begins_character = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins_character && columns-- == 0) break;
  }
  return at;
}

/// Returns where the line that `text` begins with ends: at a gap behind its first third, else at a blank, else at its
/// end.
std::size_t break_of(std::string_view text, std::size_t indent, std::int64_t columns) {
  const std::size_t fits = bytes_of(text, columns);
  if (fits == text.size()) return fits;
  const std::size_t gap = text.rfind("  ", fits);
  if (gap != std::string_view::npos && gap > std::max(indent, fits / 3)) return gap;
  const std::size_t blank = text.rfind(' ', fits);
  if (blank != std::string_view::npos && blank > indent) return blank;
  return std::min(text.find(' ', std::max(fits, indent)), text.size());
}

void wrap_line(std::string_view line, std::int64_t columns, std::string& wrapped) {
  std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string next_indent(indent + 4, ' ');
  std::string rest(line);
  for (;;) {
    const std::size_t end = break_of(rest, indent, columns);
    wrapped += rest.substr(0, end);
    const std::size_t next = rest.find_first_not_of(' ', end);
    if (next == std::string::npos) return;
    rest = next_indent + rest.substr(next);
    indent = next_indent.size();
    wrapped += '\n';
  }
}

}  // namespace

std::optional<std::int64_t> terminal_columns(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

std::string wrap_words(std::string_view text, std::int64_t columns) {
  constexpr std::int64_t kFewestColumns = 20;
  if (columns < kFewestColumns) return std::string(text);
  std::string wrapped;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    wrap_line(text.substr(begin, end - begin), columns, wrapped);
    if (end == text.size()) break;
    wrapped += '\n';
    begin = end + 1;
  }
  return wrapped;
}

std::string without_controls(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Sequence sequence = sequence_at_front(text.substr(at));
    const char32_t code = sequence.is_valid ? decode_at(text, at).code : 0;
    const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const std::string_view bytes = text.substr(at, sequence.length);
    at += sequence.length;
    if (code == '\n' || code == '\t' || !is_control) {
      shown += bytes;
      continue;
    }
    for (const char byte : bytes) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
      shown += escaped;
    }
  }
  return shown;
}

void print(std::FILE* stream, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::va_list again;
  va_copy(again, arguments);
  std::string text(static_cast<std::size_t>(std::max(0, std::vsnprintf(nullptr, 0, format, arguments))) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, again);
  va_end(again);
  va_end(arguments);
  text.pop_back();
  const std::string shown = without_controls(text);
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

}  // namespace trainctl::core
