#include "dataset/text/text_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl {
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

/// Where the first byte is that isn't UTF-8; npos if all is well.
std::size_t first_invalid(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(i));
    if (bytes == 0) return i;
    i += bytes;
  }
  return std::string_view::npos;
}

TextFormat format_of(const fs::path& file, TextFormat format) {
  if (format != TextFormat::auto_) return format;
  const std::string ending = file.extension().string();
  if (ending == ".jsonl" || ending == ".ndjson") return TextFormat::jsonl;
  if (ending == ".csv") return TextFormat::csv;
  if (ending == ".tsv" || ending == ".tab") return TextFormat::tsv;
  return TextFormat::text;
}

/// Takes the front line off, without its end (LF or CR LF).
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_number(const std::string& name) {
  return !name.empty() && name.size() < 10 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// A table's rows, one record at a time.
class Records {
 public:
  Records(const fs::path& file, std::string_view text, TextFormat format) : file_(file), rest_(text), format_(format) {}

  /// The next record that isn't an empty line; none at the end.
  bool next() {
    while (!rest_.empty()) {
      line_ += lines_taken_;
      lines_taken_ = 0;
      if (format_ == TextFormat::tsv)
        split_tabs();
      else
        split_quoted();
      if (cells.size() != 1 || !cells[0].empty()) return true;
    }
    return false;
  }
  std::int64_t line() const { return line_; }

  std::vector<std::string> cells;

 private:
  void split_tabs() {
    std::string_view line = take_line(rest_);
    ++lines_taken_;
    cells.clear();
    while (true) {
      const std::size_t tab = line.find('\t');
      cells.emplace_back(line.substr(0, tab));
      if (tab == std::string_view::npos) return;
      line.remove_prefix(tab + 1);
    }
  }

  /// RFC 4180: a quoted cell may hold commas, line ends, and quotes written twice.
  void split_quoted() {
    cells.assign(1, "");
    while (true) {
      if (rest_.starts_with('"')) take_quoted_cell();
      const std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
      cells.back() += rest_.substr(0, end);
      const bool more = end < rest_.size() && rest_[end] == ',';
      if (!more && cells.back().ends_with('\r')) cells.back().pop_back();
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      if (!more) break;
      cells.emplace_back();
    }
    ++lines_taken_;
  }

  void take_quoted_cell() {
    const std::int64_t begin = line_ + lines_taken_;
    rest_.remove_prefix(1);
    while (true) {
      const std::size_t quote = rest_.find('"');
      if (quote == std::string_view::npos)
        throw Error(place_of(file_, begin) + ": a quoted cell that begins here never ends")
            .hint("in csv a quote inside a quoted cell is written twice; for raw tabs set format: tsv");
      const std::string_view part = rest_.substr(0, quote);
      lines_taken_ += std::count(part.begin(), part.end(), '\n');
      cells.back() += part;
      rest_.remove_prefix(quote + 1);
      if (!rest_.starts_with('"')) return;
      cells.back() += '"';
      rest_.remove_prefix(1);
    }
  }

  fs::path file_;
  std::string_view rest_;
  TextFormat format_;
  std::int64_t line_ = 1;
  std::int64_t lines_taken_ = 0;
};

/// Which cells the columns are, from 0.
std::vector<std::size_t> places_of(const RowColumns& columns, const std::vector<std::string>& header,
                                   const fs::path& file) {
  std::vector<std::size_t> places;
  for (const std::string& name : columns.names) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found != header.end()) {
      places.push_back(static_cast<std::size_t>(found - header.begin()));
    } else if (is_number(name) && name != "0") {
      places.push_back(std::stoul(name) - 1);
    } else {
      Error error(place_of(file, 1) + ": there is no column '" + name + "'; the columns are " + list_words(header));
      const std::string near = nearest_word(name, header);
      throw std::move(error).hint(near.empty() ? "columns are chosen by name, or by number from 1"
                                               : "did you mean " + near + "?");
    }
  }
  return places;
}

void read_table(const fs::path& file, std::string_view text, TextFormat format, const TextFileOptions& options,
                const RowColumns& columns, const RowUse& use) {
  const bool by_number = std::all_of(columns.names.begin(), columns.names.end(), is_number);
  const std::int64_t headers = options.header_lines.value.value_or(by_number ? 0 : 1);
  Records records(file, text, format);
  std::vector<std::string> header;
  for (std::int64_t i = 0; i < headers && records.next(); ++i)
    if (i == 0) header = records.cells;
  const std::vector<std::size_t> places = places_of(columns, header, file);
  std::vector<std::string_view> values(places.size());
  while (records.next()) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] >= records.cells.size())
        throw Error(place_of(file, records.line()) + ": this row has " + std::to_string(records.cells.size()) +
                    (records.cells.size() == 1 ? " column" : " columns") + ", and '" + columns.names[i] +
                    "' is number " + std::to_string(places[i] + 1));
      values[i] = records.cells[places[i]];
    }
    use(values, records.line());
  }
}

std::string member_text(const nlohmann::json& object, const std::string& name, const std::string& place) {
  const auto found = object.find(name);
  if (found == object.end()) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    throw Error(place + ": this object has no member '" + name + "'; it has " + list_words(names));
  }
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number() || found->is_boolean()) return found->dump();
  throw Error(place + ": '" + name + "' should be text or a number, but is " + found->type_name());
}

void read_json_lines(const fs::path& file, std::string_view text, const RowColumns& columns, const RowUse& use) {
  std::vector<std::string> storage(columns.names.size());
  std::vector<std::string_view> values(columns.names.size());
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string place = place_of(file, number);
    nlohmann::json object;
    try {
      object = nlohmann::json::parse(line);
    } catch (const nlohmann::json::out_of_range&) {
      throw Error(place + ": a number is too large");
    } catch (const nlohmann::json::parse_error& error) {
      throw Error(place + ": not JSON, at byte " + std::to_string(error.byte) + " of the line");
    }
    if (!object.is_object()) throw Error(place + ": expected an object, got " + object.type_name());
    for (std::size_t i = 0; i < storage.size(); ++i)
      values[i] = storage[i] = member_text(object, columns.names[i], place);
    use(values, number);
  }
}

std::string read_text(const fs::path& file) {
  std::string bytes = read_file(file);
  if (bytes.empty()) throw Error(file.string() + " is empty");
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.erase(0, 3);  // a byte order mark is no text
  return bytes;
}

bool is_visible(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") != std::string_view::npos;
}

void split_plain_text(std::string_view text, DocumentUnit unit, const DocumentUse& use) {
  if (unit == DocumentUnit::file) {
    if (is_visible(text)) use(text);
    return;
  }
  while (!text.empty()) {
    std::string_view rest = text;
    std::size_t end = 0;  // of the document, in text
    if (unit == DocumentUnit::line) {
      const std::string_view line = take_line(rest);
      end = line.size();
    } else {
      while (!rest.empty()) {
        if (!is_visible(take_line(rest))) break;
        end = text.size() - rest.size();
      }
    }
    std::string_view document = text.substr(0, end);
    while (document.ends_with('\n') || document.ends_with('\r')) document.remove_suffix(1);
    if (is_visible(document)) use(document);
    text = rest;
  }
}

}  // namespace

std::string place_of(const fs::path& file, std::int64_t line) {
  return file.string() + ":" + std::to_string(line);
}

std::string_view checked_utf8(std::string_view text, InvalidUtf8 invalid, const fs::path& file, std::int64_t first_line,
                              std::string& storage) {
  std::size_t wrong = first_invalid(text);
  if (wrong == std::string_view::npos) return text;
  if (invalid == InvalidUtf8::refuse) {
    const std::int64_t line =
        first_line + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(wrong), '\n');
    const std::size_t line_begin = wrong == 0 ? std::string_view::npos : text.rfind('\n', wrong - 1);
    const std::size_t column = wrong - (line_begin == std::string_view::npos ? 0 : line_begin + 1) + 1;
    char byte[8];
    std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[wrong])));
    throw Error(place_of(file, line) + ": byte " + std::to_string(column) + " of the line, " + byte + ", is not UTF-8")
        .hint("convert the file (iconv -t UTF-8), or set invalid_utf8: replace");
  }
  storage.clear();
  while (wrong != std::string_view::npos) {
    storage.append(text.substr(0, wrong)).append("\xEF\xBF\xBD");
    text.remove_prefix(wrong);
    text.remove_prefix(invalid_bytes(text));
    wrong = first_invalid(text);
  }
  storage.append(text);
  return storage;
}

void read_rows(const fs::path& file, const TextFileOptions& options, const RowColumns& columns, const RowUse& use) {
  const std::string bytes = read_text(file);
  std::string storage;
  const std::string_view text = checked_utf8(bytes, options.invalid_utf8, file, 1, storage);
  const TextFormat format = format_of(file, options.format);
  if (format == TextFormat::text)
    throw Error(file.string() + " has no columns: it is taken as plain text").hint("set format to jsonl, csv or tsv");
  if (format == TextFormat::jsonl) return read_json_lines(file, text, columns, use);
  read_table(file, text, format, options, columns, use);
}

void read_documents(const TextFiles& files, const DocumentUse& use) {
  for (const std::string& name : files.files) {
    const fs::path file = name;
    if (format_of(file, files.format) != TextFormat::text) {
      const TextFileOptions options{files.format, files.header_lines, files.invalid_utf8};
      read_rows(file, options, {{files.text}}, [&](const std::vector<std::string_view>& values, std::int64_t) {
        if (is_visible(values[0])) use(values[0]);
      });
      continue;
    }
    const std::string bytes = read_text(file);
    std::string storage;
    split_plain_text(checked_utf8(bytes, files.invalid_utf8, file, 1, storage), files.document, use);
  }
}

}  // namespace trainctl
