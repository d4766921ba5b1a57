#include "dataset/text/reading/text_file.h"

#include <unicode/ucnv.h>
#include <unicode/ucnv_err.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "core/utf8.h"
#include "dataset/files/compression.h"

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

/// Returns a byte for messages: "0xe9".
std::string hex_byte(char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}

bool begins_as_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

bool is_utf8(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
  return name == "utf8" || name == "utf8sig";
}

struct CloseConverter {
  void operator()(UConverter* converter) const { ucnv_close(converter); }
};
using Converter = std::unique_ptr<UConverter, CloseConverter>;

Converter open_converter(const std::string& name) {
  UErrorCode problem = U_ZERO_ERROR;
  Converter converter(ucnv_open(name.c_str(), &problem));
  if (U_FAILURE(problem))
    throw core::Error("dataset.encoding: no encoding is called '" + name + "'")
        .hint("names are those of ICU and IANA, such as utf-8, latin1, windows-1252, utf-16, shift_jis, gb18030");
  return converter;
}

/// Returns the text in UTF-8.
std::string convert(std::string_view bytes, const TextReading& reading, const fs::path& file) {
  const Converter from = open_converter(reading.encoding);
  const Converter to = open_converter("UTF-8");
  UErrorCode problem = U_ZERO_ERROR;
  if (reading.invalid == EncodingErrors::strict)
    ucnv_setToUCallBack(from.get(), UCNV_TO_U_CALLBACK_STOP, nullptr, nullptr, nullptr, &problem);
  std::string text;
  std::array<char, 1 << 16> part{};
  std::array<UChar, 1 << 14> between{};
  UChar* between_begin = between.data();
  UChar* between_end = between.data();
  const char* next = bytes.data();
  const char* const end = bytes.data() + bytes.size();
  do {
    problem = U_ZERO_ERROR;
    char* written = part.data();
    ucnv_convertEx(to.get(), from.get(), &written, part.data() + part.size(), &next, end, between.data(),
                   &between_begin, &between_end, between.data() + between.size(),
                   /*reset=*/text.empty() && next == bytes.data(),
                   /*flush=*/true, &problem);
    text.append(part.data(), written);
  } while (problem == U_BUFFER_OVERFLOW_ERROR);
  if (U_SUCCESS(problem)) return text;
  std::array<char, 32> wrong{};
  auto length = static_cast<std::int8_t>(wrong.size());
  UErrorCode unknown = U_ZERO_ERROR;
  ucnv_getInvalidChars(from.get(), wrong.data(), &length, &unknown);
  const auto at = static_cast<std::size_t>(next - bytes.data()) - static_cast<std::size_t>(std::max<int>(length, 1));
  throw core::Error(byte_place(file, bytes, at) + ", " + hex_byte(bytes[at]) + ", is not " + reading.encoding)
      .hint("is dataset.encoding right?");
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

std::string_view text_of_bytes(std::string_view bytes, const TextReading& reading, const fs::path& file,
                               std::string& converted) {
  std::string_view text = bytes;
  if (!is_utf8(reading.encoding)) text = converted = convert(bytes, reading, file);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark is no text
  const std::size_t wrong = core::valid_prefix(text);
  const bool is_valid = wrong == text.size();
  if (!is_valid && reading.invalid == EncodingErrors::strict && text.find('\0') > wrong)
    throw core::Error(byte_place(file, text, wrong) + ", " + hex_byte(text[wrong]) + ", is not UTF-8")
        .hint(std::string("convert the file (iconv -f ") + (begins_as_utf16(text) ? "UTF-16" : "latin1") +
              " -t UTF-8), or set the dataset's encoding or encoding_errors");
  refuse_nul(file, text);
  if (!is_valid) text = converted = core::replace_invalid(text);
  return text;
}

TextFile::TextFile(const fs::path& path, const TextReading& reading) : file_(map(path)) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.empty()) throw core::Error(path.string() + " is empty");
  const std::string_view read(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const Compression* kind = compression_of(read))
    throw core::Error(path.string() + " is compressed (" + kind->name + "), and is read as text")
        .hint(std::string(kind->unpack) + " it first");
  text_ = text_of_bytes(read, reading, path, converted_);
}

}  // namespace trainctl::dataset
