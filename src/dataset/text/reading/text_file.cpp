#include "dataset/text/reading/text_file.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

/// How many bytes the UTF-8 character at the front has; 0 if it is none (RFC 3629: no surrogates, nothing overlong).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    return first == 0xED && byte(1) > 0x9F ? 0 : 3;
  }
  if (first < 0xF0 || first > 0xF4 || !follows(1) || !follows(2) || !follows(3)) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  return first == 0xF4 && byte(1) > 0x8F ? 0 : 4;
}

/// How many bytes at the front, where no character is, one U+FFFD stands for: as far as they could begin one (Unicode's
/// "maximal subpart", as Python replaces).
std::size_t invalid_bytes(std::string_view text) {
  for (std::size_t bytes = std::min<std::size_t>(3, text.size()); bytes > 1; --bytes) {
    for (const char next : {'\x80', '\x90', '\xA0', '\xBF'}) {
      std::string whole(text.substr(0, bytes));
      while (whole.size() < 4) {
        whole += whole.size() == 1 ? next : '\x80';
        if (character_bytes(whole) == whole.size()) return bytes;
      }
    }
  }
  return 1;
}

/// How many bytes at the front are ASCII, in steps of eight.
std::size_t ascii_bytes(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  return at;
}

/// Where the first byte is that isn't UTF-8; npos if all is well.
std::size_t first_invalid(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    i += ascii_bytes(text.substr(i));
    for (int characters = 0; characters < 16 && i < text.size(); ++characters) {
      const std::size_t bytes = character_bytes(text.substr(i));
      if (bytes == 0) return i;
      i += bytes;
    }
  }
  return std::string_view::npos;
}

/// "notes.txt:3: byte 7 of the line"
std::string byte_place(const fs::path& file, std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_end = before.rfind('\n');
  const std::size_t column = at - (line_end == std::string_view::npos ? 0 : line_end + 1) + 1;
  return place_of(file, 1 + std::count(before.begin(), before.end(), '\n')) + ": byte " + std::to_string(column) +
         " of the line";
}

void refuse_nul(const fs::path& file, std::string_view text) {
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos)
    throw core::Error(byte_place(file, text, nul) + " is NUL, which text doesn't have")
        .hint("UTF-16 is converted by iconv -f UTF-16 -t UTF-8; is it a text file?");
}

std::string replace_invalid(std::string_view text, std::size_t wrong) {
  std::string replaced;
  while (wrong != std::string_view::npos) {
    replaced.append(text.substr(0, wrong)).append("\xEF\xBF\xBD");
    text.remove_prefix(wrong);
    text.remove_prefix(invalid_bytes(text));
    wrong = first_invalid(text);
  }
  return replaced.append(text);
}

core::MappedFile map(const fs::path& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) throw core::Error("cannot read " + path.string() + ": it is a directory");
  return core::MappedFile(path);
}

}  // namespace

std::string place_of(const fs::path& file, std::int64_t line) {
  return file.string() + ":" + std::to_string(line);
}

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

TextFile::TextFile(const fs::path& path, EncodingErrors invalid) : file_(map(path)) {
  const std::span<const std::byte> bytes = file_.bytes();
  text_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (text_.empty()) throw core::Error(path.string() + " is empty");
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);  // a byte order mark is no text
  const std::size_t wrong = first_invalid(text_);
  if (wrong != std::string_view::npos && invalid == EncodingErrors::strict && text_.find('\0') > wrong) {
    char byte[8];
    std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(text_[wrong])));
    throw core::Error(byte_place(path, text_, wrong) + ", " + byte + ", is not UTF-8")
        .hint("convert the file (iconv -t UTF-8), or set encoding_errors: replace");
  }
  refuse_nul(path, text_);
  if (wrong != std::string_view::npos) text_ = replaced_ = replace_invalid(text_, wrong);
}

}  // namespace trainctl::dataset
