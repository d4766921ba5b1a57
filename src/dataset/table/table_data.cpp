#include "dataset/table/table_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "dataset/sampler/split.h"
#include "dataset/table/parquet.h"
#include "dataset/text/reading/table_records.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

std::string place_text(const std::string& path, std::int64_t line) {
  return path + ":" + std::to_string(line);
}

bool is_missing(std::string_view cell) {
  static constexpr std::string_view kMissing[] = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"};
  return std::find(std::begin(kMissing), std::end(kMissing), cell) != std::end(kMissing);
}

std::size_t column_of(const std::string& name, const std::vector<std::string>& header, const std::string& path) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  if (core::is_number(name) && std::stoul(name) >= 1 && std::stoul(name) <= header.size()) return std::stoul(name) - 1;
  const std::string near = core::nearest_word(name, header);
  throw core::Error(path + ": there is no column '" + name + "'; the columns are " + core::list_words(header))
      .hint(near.empty() ? "columns are chosen by name, or by number from 1" : "did you mean " + near + "?");
}

TableFileFormat format_of(const fs::path& file, TableFileFormat format) {
  if (format != TableFileFormat::auto_) return format;
  const std::string ending = file.extension().string();
  if (ending == ".csv") return TableFileFormat::csv;
  if (ending == ".tsv" || ending == ".tab") return TableFileFormat::tsv;
  if (ending == ".parquet" || ending == ".pq") return TableFileFormat::parquet;
  throw core::Error(file.string() + ": its name doesn't say what kind of table it is")
      .hint("set dataset.format to csv, tsv or parquet");
}

void read_text_table(const fs::path& file, TableFileFormat format, const config::AutoOr<std::int64_t>& header_lines,
                     TableBuilder& builder) {
  const core::MappedFile bytes(file);
  std::string_view text(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const bool tabs = format == TableFileFormat::tsv;
  TableRecords records(file, text, {.separator = tabs ? '\t' : ',', .quotes = tabs ? Quoting::none : Quoting::rfc4180});
  const TableColumns& columns = builder.columns();
  const bool by_number =
      core::is_number(columns.label) && std::all_of(columns.features.begin(), columns.features.end(), core::is_number);
  const std::int64_t headers = header_lines.value.value_or(by_number ? 0 : 1);
  std::vector<std::string> header;
  for (std::int64_t i = 0; i < headers; ++i) {
    if (!records.next()) throw core::Error(file.string() + " ends before its header does");
    if (i == 0) header = records.cells();
  }
  TableBuilder::Layout layout;
  std::vector<float> values;
  bool begun = false;
  while (records.next()) {
    const std::vector<std::string>& cells = records.cells();
    if (header.empty())
      for (std::size_t i = 0; i < cells.size(); ++i) header.push_back(std::to_string(i + 1));
    if (!begun) layout = builder.begin_file(file.string(), header);
    begun = true;
    if (cells.size() != header.size())
      throw core::Error(place_text(file.string(), records.line()) + ": this row has " + std::to_string(cells.size()) +
                        " columns, and the first one " + std::to_string(header.size()));
    values.clear();
    for (const std::size_t feature : layout.features)
      values.push_back(builder.number(core::trimmed(cells[feature]), values.size(), records.line())
                           .value_or(std::numeric_limits<float>::quiet_NaN()));
    builder.add(values, core::trimmed(cells[layout.label]), records.line());
  }
}

}  // namespace

std::string TableData::place(std::size_t row) const {
  return place_text(paths[files[row]], lines[row]);
}

std::string TableBuilder::place(std::int64_t line) const {
  return place_text(data_.paths.back(), line);
}

TableBuilder::Layout TableBuilder::begin_file(const std::string& path, const std::vector<std::string>& header) {
  Layout layout;
  layout.label = column_of(columns_.label, header, path);
  if (columns_.features.empty()) {
    for (std::size_t i = 0; i < header.size(); ++i)
      if (i != layout.label) layout.features.push_back(i);
  } else {
    for (const std::string& name : columns_.features) layout.features.push_back(column_of(name, header, path));
  }
  if (layout.features.empty()) throw core::Error(path + " has no column beside the label");
  std::vector<std::string> names;
  for (const std::size_t feature : layout.features) {
    if (feature == layout.label)
      throw core::Error("dataset.features has the label, '" + header[feature] + "', among the inputs")
          .hint("remove it there");
    names.push_back(header[feature]);
  }
  if (!data_.paths.empty() && names != data_.features)
    throw core::Error(path + " has other columns than " + data_.paths.front() + ": " + core::list_words(names) +
                      ", not " + core::list_words(data_.features));
  data_.features = std::move(names);
  data_.paths.push_back(path);
  return layout;
}

std::optional<float> TableBuilder::number(std::string_view cell, std::size_t feature, std::int64_t line) const {
  if (is_missing(cell)) return std::nullopt;
  float value = 0;
  const std::string_view digits = cell.starts_with('+') ? cell.substr(1) : cell;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool read = problem == std::errc() || problem == std::errc::result_out_of_range;
  if (cell == "TRUE" || cell == "True" || cell == "true") return 1.0F;
  if (cell == "FALSE" || cell == "False" || cell == "false") return 0.0F;
  if (!read || end != digits.data() + digits.size() || !std::isfinite(value))
    throw core::Error(place(line) + ": column '" + data_.features[feature] + "' should be a number, but is '" +
                      std::string(cell.substr(0, 40)) + "'")
        .hint(
            "categories aren't taken as they are: list the columns of numbers in dataset.features, or write a column "
            "of 0 and 1 for each category");
  return value;
}

void TableBuilder::add_label(std::string_view label, std::int64_t line) {
  if (columns_.label_type == LabelType::class_) {
    if (is_missing(label)) return data_.classes.push_back(-1);
    const auto [found, is_new] = numbers_.emplace(label, static_cast<std::int32_t>(data_.label_names.size()));
    if (is_new) data_.label_names.emplace_back(label);
    return data_.classes.push_back(found->second);
  }
  double value = std::numeric_limits<double>::quiet_NaN();
  const auto [end, problem] = std::from_chars(label.data(), label.data() + label.size(), value);
  if (!is_missing(label) && (problem != std::errc() || end != label.data() + label.size() || !std::isfinite(value)))
    throw core::Error(place(line) + ": the label should be a number, but is '" + std::string(label.substr(0, 40)) + "'")
        .hint("dataset.label_type: class takes names");
  data_.targets.push_back(is_missing(label) ? std::numeric_limits<double>::quiet_NaN() : value);
}

void TableBuilder::add(std::span<const float> features, std::string_view label, std::int64_t line) {
  add_label(label, line);
  data_.values.insert(data_.values.end(), features.begin(), features.end());
  std::string key(reinterpret_cast<const char*>(features.data()), features.size_bytes());
  data_.hashes.push_back(key_hash(key.append(label)));
  data_.lines.push_back(line);
  data_.files.push_back(static_cast<std::uint32_t>(data_.paths.size() - 1));
}

TableData read_tables(std::span<const fs::path> files, TableFileFormat format,
                      const config::AutoOr<std::int64_t>& header_lines, TableColumns columns) {
  TableBuilder builder(std::move(columns));
  for (const fs::path& file : files) {
    const TableFileFormat own = format_of(file, format);
    if (own == TableFileFormat::parquet)
      read_parquet(file, builder);
    else
      read_text_table(file, own, header_lines, builder);
  }
  TableData data = builder.take();
  if (data.num_rows() == 0)
    throw core::Error("no rows in " + files.front().string() + (files.size() > 1 ? " and the other files" : ""));
  return data;
}

}  // namespace trainctl::dataset
