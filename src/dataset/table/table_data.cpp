#include "dataset/table/table_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "dataset/sampler/split.h"
#include "dataset/table/parquet.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/table_records.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRowsThatDecide = 10'000;
constexpr std::size_t kMostCategories = std::size_t{1} << 20;  // of a column; a float counts them exactly

std::string place_text(const std::string& path, std::int64_t line) {
  return path + ":" + std::to_string(line);
}

bool is_parquet(const fs::path& file, TableFileFormat format) {
  return format == TableFileFormat::parquet ||
         (format == TableFileFormat::auto_ && format_of(file.string(), TextFormat::auto_) == TextFormat::parquet);
}

void read_text_table(const fs::path& file, const TableReading& reading, TableBuilder& builder) {
  const TextFile content(file, {.encoding = reading.config.encoding});
  const std::string_view text = content.text();
  const TableColumns& chosen = builder.columns();
  const ColumnChoice choice = core::is_number(chosen.label) ? choice_of(chosen.features) : ColumnChoice::by_name;
  KnownLayout known = known_layout(reading.config, file);
  if (!known.decimal && builder.has_decimal_comma()) known.decimal = ',';
  known.has_header = chosen.has_header;
  const TableLayout layout = layout_of_table(file, text, known, choice);
  if (!layout.findings.empty() && reading.tell) reading.tell(file.string() + ": " + core::list_words(layout.findings));
  if (layout.header.empty()) builder.number_columns();
  std::vector<std::string> header = layout.header;
  std::optional<TableBuilder::Layout> columns;
  std::vector<TableCell> features;
  TableRecords records = layout.open_rows(file, text);
  const auto cell = [&](std::size_t column) {
    const std::string& text_of_cell = records.cells()[column];
    const bool is_quoted = records.is_quoted(column);
    return TableCell{.text = is_quoted ? text_of_cell : core::trimmed(text_of_cell), .is_quoted = is_quoted};
  };
  for (std::int64_t row = 0; row < reading.most_rows && records.next(); ++row) {
    const std::size_t width = records.cells().size();
    for (std::size_t i = header.size(); layout.header.empty() && i < width && !columns; ++i)
      header.push_back(std::to_string(i + 1));
    if (!columns) columns = builder.begin_file(file.string(), header, layout.format.decimal);
    if (width != header.size())
      throw core::Error(place_text(file.string(), records.line()) + ": this row has " + std::to_string(width) +
                        " columns, and the first one " + std::to_string(header.size()))
          .hint(
              "a cell with the separator in it stands in quotes; dataset.separator and header_lines say how the file "
              "is laid out");
    features.clear();
    for (const std::size_t feature : columns->features) features.push_back(cell(feature));
    builder.add(features, cell(columns->label), records.line());
  }
}

/// Puts columns into the order of their names in `names`, if they have these names.
void sort_as(const std::vector<std::string>& names, const std::vector<std::string>& header,
             std::vector<std::size_t>& columns) {
  std::vector<std::size_t> sorted;
  for (const std::string& name : names)
    for (const std::size_t column : columns)
      if (header[column] == name) sorted.push_back(column);
  if (sorted.size() == columns.size()) columns = std::move(sorted);
}

}  // namespace

std::string TableData::place(std::size_t row) const {
  return place_text(paths[files[row]], lines[row]);
}

std::string TableBuilder::place(std::int64_t line) const {
  return place_text(data_.paths[file_], line);
}

KnownLayout known_layout(const TableConfig& config, const fs::path& file) {
  const bool tabs =
      config.format == TableFileFormat::tsv ||
      (config.format == TableFileFormat::auto_ && format_of(file.string(), TextFormat::auto_) == TextFormat::tsv);
  KnownLayout known{.usual_separator = tabs ? '\t' : ',', .header_lines = config.header_lines};
  if (config.separator.value)
    known.separator = separator_in(*config.separator.value);
  else if (config.format != TableFileFormat::auto_)
    known.separator = known.usual_separator;
  if (config.decimal != DecimalSign::auto_) known.decimal = config.decimal == DecimalSign::comma ? ',' : '.';
  return known;
}

TableBuilder::Layout TableBuilder::begin_file(const std::string& path, const std::vector<std::string>& header,
                                              char decimal, const std::vector<std::optional<ColumnKind>>& stored) {
  if (!stored.empty() && data_.kinds.empty() && !waiting_.empty()) decide_kinds();  // by the cells of their own files
  Layout layout;
  layout.label = column_of(columns_.label, header, path);
  if (columns_.features.empty()) {
    for (std::size_t i = 0; i < header.size(); ++i)
      if (i != layout.label) layout.features.push_back(i);
    sort_as(data_.features, header, layout.features);
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
  has_checked_truth_.assign(layout.features.size(), false);
  const auto is_text = [&](std::size_t column) { return !stored.empty() && stored[column] == ColumnKind::category; };
  are_texts_.resize(layout.features.size() + 1, true);
  for (std::size_t i = 0; i < layout.features.size(); ++i) are_texts_[i] = are_texts_[i] && is_text(layout.features[i]);
  label_is_stored_text_ = is_text(layout.label);
  are_texts_.back() = are_texts_.back() && label_is_stored_text_;
  if (!data_.paths.empty() && names != data_.features)
    throw core::Error(path + " has other columns than " + data_.paths.front() + ": " + core::list_words(names) +
                      ", not " + core::list_words(data_.features))
        .hint("dataset.features lists those that all files have");
  data_.features = std::move(names);
  data_.label = header[layout.label];
  file_ = static_cast<std::uint32_t>(data_.paths.size());
  data_.paths.push_back(path);
  decimals_.push_back(decimal);
  data_.has_decimal_comma = data_.has_decimal_comma || decimal == ',';
  data_.categories.resize(data_.num_features());
  category_numbers_.resize(data_.num_features());
  has_truth_values_.resize(data_.num_features() + 1);
  has_texts_.resize(data_.num_features());
  return layout;
}

/// Returns the kind of a column by the rows that wait: that of all cells with a value.
ColumnKind TableBuilder::kind_of_column(std::size_t feature) const {
  if (kinds_[feature]) return *kinds_[feature];
  bool numbers = true;
  bool dates = true;
  bool any = false;
  for (const WaitingRow& row : waiting_) {
    const std::string& cell = row.features[feature].text;
    if (is_missing(cell)) continue;
    any = true;
    numbers = numbers && number_in(cell, decimals_[row.file]);
    dates = dates && date_in(cell);
    if (!numbers && !dates) return ColumnKind::category;
  }
  return any && dates && !numbers ? ColumnKind::date : ColumnKind::number;
}

void TableBuilder::decide_kinds() {
  for (std::size_t feature = 0; feature < data_.num_features(); ++feature)
    data_.kinds.push_back(kind_of_column(feature));
  std::vector<TableCell> cells;
  const std::uint32_t file = file_;
  for (const WaitingRow& row : std::exchange(waiting_, {})) {
    cells.assign(row.features.begin(), row.features.end());
    file_ = row.file;
    add_decided(cells, row.label, row.line);
  }
  file_ = file;
}

void TableBuilder::add(std::span<const TableCell> features, TableCell label, std::int64_t line) {
  if (!data_.kinds.empty()) return add_decided(features, label, line);
  WaitingRow row{.features = {}, .label = {std::string(label.text), label.is_quoted}, .line = line, .file = file_};
  for (const TableCell& cell : features) row.features.push_back({std::string(cell.text), cell.is_quoted});
  waiting_.push_back(std::move(row));
  if (waiting_.size() == kRowsThatDecide) decide_kinds();
}

void TableBuilder::add_decided(std::span<const TableCell> features, TableCell label, std::int64_t line) {
  std::string key;
  for (std::size_t feature = 0; feature < features.size(); ++feature) {
    const double value = stored_value(feature, features[feature], line);
    data_.values.push_back(value);
    if (data_.kinds[feature] == ColumnKind::category)
      key.append(features[feature].text).push_back('\0');
    else
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  finish_row(std::move(key), label, line);
}

void TableBuilder::add_typed(const ParquetRow& row) {
  if (data_.kinds.empty()) decide_kinds();
  std::string key;
  for (std::size_t feature = 0; feature < data_.num_features(); ++feature) {
    const bool is_text = stored_[feature] == ColumnKind::category;
    double value = row.values[feature];
    if (is_text || data_.kinds[feature] == ColumnKind::category) {
      const std::string text = is_text             ? std::string(row.texts[feature])
                               : std::isnan(value) ? std::string()
                                                   : row.text_of(feature);
      if (!text.empty()) check_texts(feature, is_text, row.number);
      value = stored_value(feature, {.text = text, .is_quoted = is_text}, row.number);
      key.append(text).push_back('\0');
    } else {
      if (!std::isnan(value)) check_stored(feature, row);
      value = finite(feature, value, row.number);
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    data_.values.push_back(value);
  }
  const std::string label = row.text_of(data_.num_features());
  if (columns_.label_type == LabelType::class_ && !label_is_stored_text_ && !is_missing(label))
    check_truth(data_.num_features(), label, row.number);
  finish_row(std::move(key), {.text = label, .is_quoted = label_is_stored_text_}, row.number);
}

/// Refuses texts among numbers in a column of categories: pandas takes '0' and 0 for two.
void TableBuilder::check_texts(std::size_t feature, bool is_text, std::int64_t line) {
  std::optional<bool>& expected = has_texts_[feature];
  if (!expected) expected = is_text;
  if (*expected == is_text) return;
  throw core::Error(place(line) + ": column '" + data_.features[feature] + "' has texts and numbers, and here a " +
                    (is_text ? "text" : "number"))
      .hint("store the column alike in all files");
}

/// Refuses a number among dates, a date among numbers, and truth values among numbers, in a file with types.
void TableBuilder::check_stored(std::size_t feature, const ParquetRow& row) {
  const ColumnKind kind = data_.kinds[feature];
  if (stored_[feature] != kind)
    throw core::Error(place(row.number) + ": column '" + data_.features[feature] + "' should be a " + name_of(kind) +
                      ", but is stored as a " + name_of(stored_[feature]))
        .hint("store the column alike in all files; a kind that dataset states for it must be the stored one");
  if (kind != ColumnKind::number || has_checked_truth_[feature]) return;
  has_checked_truth_[feature] = true;
  check_truth(feature, row.text_of(feature), row.number);
}

/// Refuses True among numbers, and numbers among truth values: they are texts for pandas. The label is the last column.
void TableBuilder::check_truth(std::size_t column, std::string_view cell, std::int64_t line) {
  const bool is_truth = is_truth_value(cell);
  const bool is_label = column == data_.num_features();
  std::optional<bool>& expected = has_truth_values_[column];
  if (!expected) expected = is_truth;
  if (*expected == is_truth || !number_in(cell, decimals_[file_])) return;
  throw core::Error(place(line) + ": " + (is_label ? "the label" : "column") + " '" +
                    (is_label ? data_.label : data_.features[column]) + "' has truth values and numbers, and here " +
                    std::string(cell.substr(0, 40)))
      .hint(std::string("write 1 for True and 0 for False") +
            (is_label ? "" : ", or name the column in dataset.categorical_columns"));
}

double TableBuilder::finite(std::size_t feature, double value, std::int64_t line) const {
  if (!std::isinf(value)) return value;
  throw core::Error(place(line) + ": column '" + data_.features[feature] +
                    "' is infinite, which no network learns from")
      .hint("remove the row, or leave the cell empty: dataset.missing_values says what happens then");
}

double TableBuilder::stored_value(std::size_t feature, TableCell cell, std::int64_t line) {
  const ColumnKind kind = data_.kinds[feature];
  if (kind == ColumnKind::category)
    return category(feature, !cell.is_quoted && is_missing(cell.text) ? std::string_view() : cell.text, line);
  if (is_missing(cell.text)) return std::numeric_limits<double>::quiet_NaN();
  if (kind == ColumnKind::number && !kinds_[feature]) check_truth(feature, cell.text, line);
  const std::optional<double> value =
      kind == ColumnKind::number ? number_in(cell.text, decimals_[file_]) : date_in(cell.text);
  if (value) return finite(feature, *value, line);
  throw core::Error(place(line) + ": column '" + data_.features[feature] + "' should be a " + name_of(kind) +
                    ", but is '" + std::string(cell.text.substr(0, 40)) + "'")
      .hint(kinds_[feature] ? "correct the cell, or the kind that dataset states for this column"
                            : "the first rows decide on a column's kind; dataset.categorical_columns takes it as text");
}

double TableBuilder::category(std::size_t feature, std::string_view cell, std::int64_t line) {
  std::unordered_map<std::string, double>& numbers = category_numbers_[feature];
  std::vector<std::string>& names = data_.categories[feature];
  if (const auto found = numbers.find(std::string(cell)); found != numbers.end()) return found->second;
  if (names.size() == kMostCategories)
    throw core::Error(place(line) + ": column '" + data_.features[feature] +
                      "' has more than 1,048,576 different texts")
        .hint("leave it out of dataset.features: a number of a row is no category");
  const auto number = static_cast<double>(names.size());
  names.emplace_back(cell);
  numbers.emplace(cell, number);
  return number;
}

void TableBuilder::add_label(TableCell label, std::int64_t line) {
  const bool is_named = label.is_quoted && !label.text.empty();
  if (columns_.label_type == LabelType::class_) {
    const std::vector<std::string>& known = columns_.class_names;
    if (!is_named && is_missing(label.text) && std::find(known.begin(), known.end(), label.text) == known.end())
      return data_.classes.push_back(-1);
    const auto [found, is_new] =
        label_numbers_.emplace(label.text, static_cast<std::int32_t>(data_.label_names.size()));
    if (is_new) data_.label_names.emplace_back(label.text);
    return data_.classes.push_back(found->second);
  }
  if (is_missing(label.text)) return data_.targets.push_back(std::numeric_limits<double>::quiet_NaN());
  check_truth(data_.num_features(), label.text, line);
  const std::optional<double> value = number_in(label.text, decimals_[file_]);
  if (!value || !std::isfinite(*value))
    throw core::Error(place(line) + ": the label should be a number, but is '" + std::string(label.text.substr(0, 40)) +
                      "'")
        .hint("dataset.label_type: class takes names");
  data_.targets.push_back(*value);
}

void TableBuilder::finish_row(std::string key, TableCell label, std::int64_t line) {
  add_label(label, line);
  data_.hashes.push_back(key_hash(key.append(label.text)));
  data_.lines.push_back(line);
  data_.files.push_back(file_);
}

void TableBuilder::check_spellings() const {
  const auto refuse = [&](std::size_t row, const std::string& what, const std::vector<std::string>& names,
                          const std::pair<std::size_t, std::size_t>& same) {
    throw core::Error(data_.place(row) + ": " + what + " '" + names[same.second] + "' is the same value as '" +
                      names[same.first] + "'")
        .hint("write both alike");
  };
  if (data_.paths.empty()) return;
  for (std::size_t feature = 0; feature < data_.num_features(); ++feature) {
    const auto same = are_texts_[feature] ? std::nullopt : spelled_twice(data_.categories[feature], decimals_.front());
    if (!same) continue;
    std::size_t row = 0;
    while (data_.values[row * data_.num_features() + feature] != static_cast<double>(same->second)) ++row;
    refuse(row, "column '" + data_.features[feature] + "':", data_.categories[feature], *same);
  }
  if (are_texts_.back() || !columns_.class_names.empty()) return;
  if (const auto same = spelled_twice(data_.label_names, decimals_.front())) {
    const std::span<const std::int32_t> rows(data_.classes.data(), data_.classes.size());
    const auto row = std::find(rows.begin(), rows.end(), static_cast<std::int32_t>(same->second));
    refuse(static_cast<std::size_t>(row - rows.begin()), "the label", data_.label_names, *same);
  }
}

TableData TableBuilder::take() {
  if (data_.kinds.empty() && !waiting_.empty()) decide_kinds();
  data_.values.finish();
  data_.classes.finish();
  data_.targets.finish();
  data_.hashes.finish();
  data_.lines.finish();
  data_.files.finish();
  check_spellings();
  return std::move(data_);
}

TableData read_tables(std::span<const fs::path> files, const TableReading& reading, TableColumns columns) {
  TableBuilder builder(std::move(columns));
  for (const fs::path& file : files) {
    if (is_parquet(file, reading.config.format))
      read_parquet(file, reading.most_rows, builder);
    else
      read_text_table(file, reading, builder);
  }
  TableData data = builder.take();
  if (data.num_rows() == 0)
    throw core::Error("no rows in " + files.front().string() + (files.size() > 1 ? " and the other files" : ""));
  return data;
}

}  // namespace trainctl::dataset
