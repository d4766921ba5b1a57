#include "dataset/text/reading/text_file.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"
#include "core/utf8.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

/// Returns the place of a byte for messages: "notes.txt:3: byte 7 of the line".
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
  const std::size_t wrong = core::valid_prefix(text_);
  const bool is_valid = wrong == text_.size();
  if (!is_valid && invalid == EncodingErrors::strict && text_.find('\0') > wrong) {
    char byte[8];
    std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(text_[wrong])));
    throw core::Error(byte_place(path, text_, wrong) + ", " + byte + ", is not UTF-8")
        .hint("convert the file (iconv -t UTF-8), or set encoding_errors: replace");
  }
  refuse_nul(path, text_);
  if (!is_valid) text_ = replaced_ = core::replace_invalid(text_);
}

}  // namespace trainctl::dataset
