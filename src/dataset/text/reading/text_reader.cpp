#include "dataset/text/reading/text_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "core/utf8.h"
#include "dataset/files/parquet_file.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/table_records.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUsualLineBytes = 64 << 20;

/// Returns the cell of each column, counted from 0.
std::vector<std::size_t> places_of(const RowColumns& columns, const std::vector<std::string>& header,
                                   const fs::path& file) {
  std::vector<std::size_t> places;
  for (const std::string& name : columns.names) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found != header.end()) {
      places.push_back(static_cast<std::size_t>(found - header.begin()));
    } else if (core::is_number(name) && std::stoul(name) > 0) {
      places.push_back(std::stoul(name) - 1);
    } else {
      core::Error error(
          place_of(file, 1) + ": there is no column '" + name + "'; " +
          (header.empty() ? "no header line names columns" : "the columns are " + core::list_words(header)));
      const std::string near = core::nearest_word(name, header);
      const bool is_unsplit = header.size() == 1 && header.front().find_first_of(",;|\t") != std::string::npos;
      throw std::move(error).hint(is_unsplit
                                      ? "texts are read from csv with commas between the columns, and from tsv with "
                                        "tabs; write the file so, or as JSON lines"
                                  : near.empty() ? "columns are chosen by name, or by number from 1"
                                                 : "did you mean " + near + "?");
    }
  }
  return places;
}

void read_table(const fs::path& file, std::string_view text, const TextFileOptions& options, const RowColumns& columns,
                const RowUse& use) {
  const KnownLayout known = known_text_layout(format_of(file.native(), options.format), options);
  const ColumnChoice choice = choice_of(columns.names);
  const TableLayout layout = layout_of_table(file, text, known, choice);
  if (!layout.findings.empty() && options.tell) options.tell(file.string() + ": " + core::list_words(layout.findings));
  const std::vector<std::size_t> places = places_of(columns, layout.header, file);
  TableRecords records = layout.open_rows(file, text);
  std::vector<std::string_view> values(places.size());
  std::size_t width = choice == ColumnChoice::by_name ? layout.header.size() : 0;  // 0: that of the first row
  while (records.next()) {
    const std::vector<std::string>& cells = records.cells();
    if (width == 0) width = cells.size();
    if (cells.size() > width)
      throw core::Error(place_of(file, records.line()) + ": this row has " + std::to_string(cells.size()) +
                        " columns, and the first one " + std::to_string(width))
          .hint("a cell with the separator in it stands in quotes; quoting says whether quotes count");
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] >= cells.size())
        throw core::Error(place_of(file, records.line()) + ": this row has " + std::to_string(cells.size()) +
                          (cells.size() == 1 ? " column" : " columns") + ", and '" + columns.names[i] + "' is number " +
                          std::to_string(places[i] + 1))
            .hint("is it the right format, and are header_lines and quotes right?");
      values[i] = cells[places[i]];
    }
    use(values, records.line());
  }
}

/// Reads texts, and numbers as texts.
void read_parquet_rows(const fs::path& file, EncodingErrors invalid, const RowColumns& columns, const RowUse& use) {
  const auto choose = [&](const std::vector<ParquetColumn>& stored) {
    std::vector<std::string> header;
    for (const ParquetColumn& column : stored) header.push_back(column.name);
    std::vector<int> chosen;
    for (const std::size_t place : places_of(columns, header, file)) {
      if (place >= stored.size())
        throw core::Error(file.string() + " has " + std::to_string(stored.size()) + " columns, and none is number " +
                          std::to_string(place + 1));
      chosen.push_back(static_cast<int>(place));
    }
    return chosen;
  };
  std::vector<std::string> texts(columns.names.size());
  std::vector<std::string_view> values(columns.names.size());
  const auto use_texts = [&](const ParquetRow& row) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = row.text_of(i);
      if (!core::valid_utf8(texts[i])) texts[i] = core::replace_invalid(texts[i]);
      values[i] = texts[i];
    }
    use(values, row.number);
  };
  read_parquet_file(file, choose, use_texts, invalid);
}

std::string member_text(const nlohmann::json& object, const std::string& name, const std::string& place) {
  const nlohmann::json* const found = find_member(object, name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    throw core::Error(place + ": this object has no member '" + name + "'; it has " + core::list_words(names));
  }
  if (found->is_string()) return found->get<std::string>();
  // The value of an integer of more than 64 bits has lost digits.
  if (found->is_number_float() && std::abs(found->get<double>()) >= 0x1p63)
    throw core::Error(place + ": '" + name + "' is a number of more than 64 bits")
        .hint("write it as a text, in quotes");
  if (found->is_number() || found->is_boolean()) return found->dump();
  throw core::Error(place + ": '" + name + "' should be text or a number, but is " + found->type_name());
}

void read_member_rows(const fs::path& file, const TextFileOptions& options, const RowColumns& columns,
                      const RowUse& use) {
  std::vector<std::string> storage(columns.names.size());
  std::vector<std::string_view> values(columns.names.size());
  read_json_lines(file, options, [&](const nlohmann::json& object, std::int64_t line) {
    for (std::size_t i = 0; i < storage.size(); ++i)
      values[i] = storage[i] = member_text(object, columns.names[i], place_of(file, line));
    use(values, line);
  });
}

bool is_visible(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") != std::string_view::npos;
}

/// Removes the first document of plain text, and returns it.
std::string_view take_document(std::string_view& text, DocumentUnit unit) {
  std::string_view rest = text;
  std::size_t end = 0;  // of the document, in text
  if (unit == DocumentUnit::line) {
    end = take_line(rest).size();
  } else {
    while (!rest.empty()) {
      if (!is_visible(take_line(rest))) break;
      end = text.size() - rest.size();
    }
  }
  std::string_view document = text.substr(0, end);
  while (document.ends_with('\n') || document.ends_with('\r')) document.remove_suffix(1);
  text = rest;
  return document;
}

void check_lines(std::string_view text, std::int64_t max_line_bytes, const fs::path& file) {
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string_view next = take_line(text);
    if (static_cast<std::int64_t>(next.size()) > max_line_bytes)
      check_line_bytes(next, max_line_bytes, place_of(file, line));
  }
}

void read_plain_text(const fs::path& path, const TextFiles& files, const DocumentUse& use) {
  const auto file = std::make_shared<const TextFile>(path, TextReading{.invalid = files.encoding_errors});
  std::string_view text = file->text();
  const bool whole = files.document == DocumentUnit::file;
  const std::int64_t most =
      files.max_line_bytes.value.value_or(whole ? std::numeric_limits<std::int64_t>::max() : kUsualLineBytes);
  if (static_cast<std::int64_t>(text.size()) > most) check_lines(text, most, path);
  if (whole) {
    if (is_visible(text)) use({.text = text, .file = file});
    return;
  }
  while (!text.empty()) {
    const std::string_view document = take_document(text, files.document);
    if (is_visible(document)) use({.text = document, .file = file});
  }
}

}  // namespace

KnownLayout known_text_layout(TextFormat format, const TextFileOptions& options) {
  const bool csv = format == TextFormat::csv;
  return {.separator = csv ? ',' : '\t',
          .decimal = '.',
          .quotes = options.quoting != Quoting::auto_ ? options.quoting
                    : csv                             ? Quoting::rfc4180
                                                      : Quoting::none,
          .header_lines = options.header_lines,
          .max_line_bytes = options.max_line_bytes};
}

const nlohmann::json* find_member(const nlohmann::json& object, const std::string& name) {
  if (const auto found = object.find(name); found != object.end()) return &*found;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
    if (const auto outer = object.find(name.substr(0, dot)); outer != object.end() && outer->is_object())
      if (const nlohmann::json* const inner = find_member(*outer, name.substr(dot + 1))) return inner;
  return nullptr;
}

void check_line_bytes(std::string_view line, std::int64_t max_line_bytes, const std::string& place) {
  if (static_cast<std::int64_t>(line.size()) > max_line_bytes)
    throw core::Error(place + ": this line has " + core::format_count(static_cast<long long>(line.size())) +
                      " bytes; at most " + core::format_count(max_line_bytes) + " are read")
        .hint("set max_line_bytes higher; is it the right format?");
}

void read_text_lines(const fs::path& file, const TextFileOptions& options, const LineUse& use) {
  const TextFile content(file, {.invalid = options.encoding_errors});
  std::string_view text = content.text();
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    check_line_bytes(line, options.max_line_bytes, place_of(file, number));
    use(line, number);
  }
}

void read_json_lines(const fs::path& file, const TextFileOptions& options, const JsonUse& use) {
  read_text_lines(file, options, [&](std::string_view line, std::int64_t number) {
    const std::string place = place_of(file, number);
    nlohmann::json object;
    try {
      object = core::parse_json(line, place);
    } catch (const nlohmann::json::out_of_range&) {
      throw core::Error(place + ": a number is too large");
    } catch (const nlohmann::json::parse_error& error) {
      throw core::Error(place + ": not JSON, at byte " + std::to_string(error.byte) + " of the line");
    }
    if (!object.is_object()) throw core::Error(place + ": expected an object, got " + object.type_name());
    use(object, number);
  });
}

void read_rows(const fs::path& file, const TextFileOptions& options, const RowColumns& columns, const RowUse& use) {
  const TextFormat format = format_of(file.native(), options.format);
  if (format == TextFormat::text)
    throw core::Error(file.string() + " has no columns: it is taken as plain text")
        .hint("set format to jsonl, csv, tsv or parquet");
  if (format == TextFormat::jsonl) return read_member_rows(file, options, columns, use);
  if (format == TextFormat::parquet) return read_parquet_rows(file, options.encoding_errors, columns, use);
  const TextFile content(file, {.invalid = options.encoding_errors});
  read_table(file, content.text(), options, columns, use);
}

void read_documents(const TextFiles& files, const DocumentUse& use, const Tell& tell) {
  for (const std::string& file : files.files) {
    if (format_of(file, files.format) == TextFormat::text) {
      if (files.format == TextFormat::auto_ && ends_in_any_case(file, ".json"))
        throw core::Error(file + " is JSON by its name, whose braces and keys would be read as plain text")
            .hint("write one object per line and set format: jsonl, or set format: text to take the file as it is");
      read_plain_text(file, files, use);
      continue;
    }
    const TextFileOptions options{files.format,          files.header_lines,
                                  files.quoting,         files.max_line_bytes.value.value_or(kUsualLineBytes),
                                  files.encoding_errors, tell};
    read_rows(file, options, {{files.text}}, [&](const std::vector<std::string_view>& values, std::int64_t) {
      if (is_visible(values[0])) use({.text = values[0], .file = nullptr});
    });
  }
}

}  // namespace trainctl::dataset
