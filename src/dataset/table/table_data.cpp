#include "dataset/table/table_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "dataset/sampler/split.h"
#include "dataset/table/parquet.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/table_records.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRowsThatDecide = 10'000;
constexpr std::size_t kMostCategories = std::size_t{1} << 20;  // of a column; a float counts them exactly

std::string shortest_text(float value) {
  char text[32];
  const auto [end, problem] = std::to_chars(text, text + sizeof text, value);
  return {text, problem == std::errc() ? end : text};
}

std::string place_text(const std::string& path, std::int64_t line) {
  return path + ":" + std::to_string(line);
}

TableFileFormat format_of(const fs::path& file, TableFileFormat format) {
  if (format != TableFileFormat::auto_) return format;
  const std::string ending = file.extension().string();
  if (ending == ".parquet" || ending == ".pq") return TableFileFormat::parquet;
  return ending == ".tsv" || ending == ".tab" ? TableFileFormat::tsv : TableFileFormat::auto_;
}

void read_text_table(const fs::path& file, TableFileFormat format, const TableReading& reading, TableBuilder& builder) {
  const core::MappedFile bytes(file);
  const std::string_view text =
      without_byte_order_mark({reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size()});
  const TableColumns& chosen = builder.columns();
  const ColumnChoice choice = core::is_number(chosen.label) ? choice_of(chosen.features) : ColumnChoice::by_name;
  const TableLayout layout = layout_of_table(file, text, text_format(text, format), reading.header_lines, choice);
  if (layout.comment_lines > 0 && reading.tell)
    reading.tell(file.string() + ": " + core::format_count(layout.comment_lines) +
                 (layout.comment_lines == 1 ? " line" : " lines") + " before the table " +
                 (layout.comment_lines == 1 ? "is" : "are") + " passed over");
  std::vector<std::string> header = layout.header;
  std::optional<TableBuilder::Layout> columns;
  std::vector<std::string_view> features;
  TableRecords records = layout.open_rows(file, text);
  for (std::int64_t row = 0; row < reading.most_rows && records.next(); ++row) {
    const std::vector<std::string>& cells = records.cells();
    for (std::size_t i = header.size(); layout.header.empty() && i < cells.size() && !columns; ++i)
      header.push_back(std::to_string(i + 1));
    if (!columns) columns = builder.begin_file(file.string(), header);
    if (cells.size() != header.size())
      throw core::Error(place_text(file.string(), records.line()) + ": this row has " + std::to_string(cells.size()) +
                        " columns, and the first one " + std::to_string(header.size()));
    features.clear();
    for (const std::size_t feature : columns->features) features.push_back(core::trimmed(cells[feature]));
    builder.add(features, core::trimmed(cells[columns->label]), records.line());
  }
}

}  // namespace

std::string TableData::place(std::size_t row) const {
  return place_text(paths[files[row]], lines[row]);
}

std::string TableBuilder::place(std::int64_t line) const {
  return place_text(data_.paths[file_], line);
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

TableFormat text_format(std::string_view text, TableFileFormat format) {
  const char separator = format == TableFileFormat::csv   ? ','
                         : format == TableFileFormat::tsv ? '\t'
                                                          : separator_of(text, ',');
  return {.separator = separator, .quotes = separator == '\t' ? Quoting::none : Quoting::rfc4180};
}

TableBuilder::Layout TableBuilder::begin_file(const std::string& path, const std::vector<std::string>& header,
                                              const std::vector<std::optional<ColumnKind>>& stored) {
  Layout layout;
  layout.label = column_of(columns_.label, header, path);
  if (columns_.features.empty()) {
    for (std::size_t i = 0; i < header.size(); ++i)
      if (i != layout.label) layout.features.push_back(i);
  } else {
    for (const std::string& name : columns_.features) layout.features.push_back(column_of(name, header, path));
  }
  if (layout.features.empty()) throw core::Error(path + " has no column beside the label");
  std::map<std::size_t, ColumnKind> stated;
  for (const auto& [name, kind] : columns_.kinds) stated.emplace(column_of(name, header, path), kind);
  std::vector<std::string> names;
  kinds_.clear();
  stored_.clear();
  for (const std::size_t feature : layout.features) {
    if (feature == layout.label)
      throw core::Error("dataset.features has the label, '" + header[feature] + "', among the inputs")
          .hint("remove it there");
    names.push_back(header[feature]);
    const auto found = stated.find(feature);
    const std::optional<ColumnKind> of_file = stored.empty() ? std::nullopt : stored[feature];
    kinds_.push_back(found == stated.end() ? of_file : std::optional(found->second));
    if (of_file) stored_.push_back(*of_file);
  }
  if (!data_.paths.empty() && names != data_.features)
    throw core::Error(path + " has other columns than " + data_.paths.front() + ": " + core::list_words(names) +
                      ", not " + core::list_words(data_.features));
  data_.features = std::move(names);
  file_ = static_cast<std::uint32_t>(data_.paths.size());
  data_.paths.push_back(path);
  data_.categories.resize(data_.num_features());
  category_numbers_.resize(data_.num_features());
  return layout;
}

/// Returns the kind of a column by the rows that wait: that of all cells with a value.
ColumnKind TableBuilder::kind_of_column(std::size_t feature) const {
  if (kinds_[feature]) return *kinds_[feature];
  bool numbers = true;
  bool dates = true;
  bool any = false;
  for (const WaitingRow& row : waiting_) {
    const std::string& cell = row.features[feature];
    if (is_missing(cell)) continue;
    any = true;
    numbers = numbers && number_in(cell);
    dates = dates && date_in(cell);
    if (!numbers && !dates) return ColumnKind::category;
  }
  return any && dates && !numbers ? ColumnKind::date : ColumnKind::number;
}

void TableBuilder::decide_kinds() {
  for (std::size_t feature = 0; feature < data_.num_features(); ++feature)
    data_.kinds.push_back(kind_of_column(feature));
  std::vector<std::string_view> cells;
  const std::uint32_t file = file_;
  for (const WaitingRow& row : std::exchange(waiting_, {})) {
    cells.assign(row.features.begin(), row.features.end());
    file_ = row.file;
    add_decided(cells, row.label, row.line);
  }
  file_ = file;
}

void TableBuilder::add(std::span<const std::string_view> features, std::string_view label, std::int64_t line) {
  if (!data_.kinds.empty()) return add_decided(features, label, line);
  waiting_.push_back(
      {.features = {features.begin(), features.end()}, .label = std::string(label), .line = line, .file = file_});
  if (waiting_.size() == kRowsThatDecide) decide_kinds();
}

void TableBuilder::add_decided(std::span<const std::string_view> features, std::string_view label, std::int64_t line) {
  std::string key;
  for (std::size_t feature = 0; feature < features.size(); ++feature) {
    const float value = stored_value(feature, features[feature], line);
    data_.values.push_back(value);
    if (data_.kinds[feature] == ColumnKind::category)
      key.append(features[feature]).push_back('\0');
    else
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  finish_row(std::move(key), label, line);
}

void TableBuilder::add_typed(std::span<const float> values, std::span<const std::string_view> texts,
                             std::string_view label, std::int64_t line) {
  if (data_.kinds.empty()) decide_kinds();
  std::string key;
  for (std::size_t feature = 0; feature < values.size(); ++feature) {
    const bool is_text = stored_[feature] == ColumnKind::category;
    float value = values[feature];
    std::string number;  // of a column of numbers that the user takes as categories
    if (!is_text && data_.kinds[feature] == ColumnKind::category && !std::isnan(value)) number = shortest_text(value);
    const std::string_view text = is_text ? texts[feature] : number;
    if (data_.kinds[feature] == ColumnKind::category || is_text) value = stored_value(feature, text, line);
    data_.values.push_back(value);
    if (data_.kinds[feature] == ColumnKind::category)
      key.append(text).push_back('\0');
    else
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  finish_row(std::move(key), label, line);
}

float TableBuilder::stored_value(std::size_t feature, std::string_view cell, std::int64_t line) {
  const ColumnKind kind = data_.kinds[feature];
  if (kind == ColumnKind::category) return category(feature, is_missing(cell) ? std::string_view() : cell);
  if (is_missing(cell)) return std::numeric_limits<float>::quiet_NaN();
  const std::optional<float> value = kind == ColumnKind::number ? number_in(cell) : date_in(cell);
  if (value) return *value;
  throw core::Error(place(line) + ": column '" + data_.features[feature] + "' should be a " + name_of(kind) +
                    ", but is '" + std::string(cell.substr(0, 40)) + "'")
      .hint(kinds_[feature] ? "correct the cell, or the kind that dataset states for this column"
                            : "the first rows decide on a column's kind; dataset.categorical_columns takes it as text");
}

float TableBuilder::category(std::size_t feature, std::string_view cell) {
  std::unordered_map<std::string, float>& numbers = category_numbers_[feature];
  std::vector<std::string>& names = data_.categories[feature];
  if (const auto found = numbers.find(std::string(cell)); found != numbers.end()) return found->second;
  if (names.size() == kMostCategories) return static_cast<float>(kMostCategories - 1);
  const auto number = static_cast<float>(names.size());
  names.emplace_back(cell);
  numbers.emplace(cell, number);
  return number;
}

void TableBuilder::add_label(std::string_view label, std::int64_t line) {
  if (columns_.label_type == LabelType::class_) {
    if (is_missing(label)) return data_.classes.push_back(-1);
    const auto [found, is_new] = label_numbers_.emplace(label, static_cast<std::int32_t>(data_.label_names.size()));
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

void TableBuilder::finish_row(std::string key, std::string_view label, std::int64_t line) {
  add_label(label, line);
  data_.hashes.push_back(key_hash(key.append(label)));
  data_.lines.push_back(line);
  data_.files.push_back(file_);
}

TableData TableBuilder::take() {
  if (data_.kinds.empty() && !waiting_.empty()) decide_kinds();
  data_.values.finish();
  data_.classes.finish();
  data_.targets.finish();
  data_.hashes.finish();
  data_.lines.finish();
  data_.files.finish();
  return std::move(data_);
}

TableData read_tables(std::span<const fs::path> files, const TableReading& reading, TableColumns columns) {
  TableBuilder builder(std::move(columns));
  for (const fs::path& file : files) {
    const TableFileFormat own = format_of(file, reading.format);
    if (own == TableFileFormat::parquet)
      read_parquet(file, reading.most_rows, builder);
    else
      read_text_table(file, own, reading, builder);
  }
  TableData data = builder.take();
  if (data.num_rows() == 0)
    throw core::Error("no rows in " + files.front().string() + (files.size() > 1 ? " and the other files" : ""));
  return data;
}

}  // namespace trainctl::dataset
