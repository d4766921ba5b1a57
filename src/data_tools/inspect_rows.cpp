#include "data_tools/inspect_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "dataset/files/parquet_file.h"
#include "dataset/table/table_data.h"
#include "dataset/text/reading/column_kind.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostRows = 200'000;
constexpr double kWordsOfTexts = 6;  // on average, in a column of texts
constexpr std::int64_t kMostClasses = 1'000;
constexpr std::array kLabelNames = {"label",  "labels", "class",   "target",  "category", "sentiment", "y",
                                    "income", "intent", "species", "outcome", "rating",   "survived"};

/// What the rows show of a column.
struct Column {
  std::string name;
  std::int64_t num_present = 0;
  std::int64_t num_missing = 0;
  std::int64_t num_words = 0;
  bool numbers = true;
  bool dates = true;
  char decimal = '.';
  std::unordered_map<std::string, std::int64_t> values{};  // at most kMostDistinct

  void add(std::string_view cell, bool is_text = false) {
    if (is_text ? cell.empty() : dataset::is_missing(cell)) {
      ++num_missing;
      return;
    }
    ++num_present;
    numbers = numbers && dataset::number_in(cell, decimal);
    dates = dates && dataset::date_in(cell);
    num_words += 1 + std::count(cell.begin(), cell.end(), ' ');
    const auto found = values.find(std::string(cell));
    if (found != values.end())
      ++found->second;
    else if (static_cast<std::int64_t>(values.size()) < kMostDistinct)
      values.emplace(cell, 1);
  }
  bool is_text() const {
    return num_present > 0 && !numbers && !dates &&
           static_cast<double>(num_words) > kWordsOfTexts * static_cast<double>(num_present);
  }
  const char* kind() const { return is_text() ? "text" : numbers ? "number" : dates ? "date" : "category"; }
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Returns how the user names columns.
dataset::ColumnChoice choice_of(const InspectOptions& options) {
  std::vector<std::string> named;
  for (const std::string& name : {options.label, options.text})
    if (!name.empty()) named.push_back(name);
  return dataset::choice_of(named);
}

/// Adds the rows of a text table.
void read_table(std::string_view text, const fs::path& file, const InspectOptions& options, SeenRows& seen,
                std::vector<Column>& columns) {
  const dataset::TableLayout layout =
      dataset::layout_of_table(file, text, dataset::known_layout(dataset::TableConfig(), file), choice_of(options));
  seen.has_header = layout.header_lines > 0;
  dataset::TableRecords records = layout.open_rows(file, text);
  while (records.next()) {
    if (seen.num_rows == kMostRows) {
      seen.is_part = true;
      return;
    }
    const std::vector<std::string>& cells = records.cells();
    for (std::size_t i = columns.size(); i < cells.size() && seen.num_rows == 0; ++i) {
      Column& column = columns.emplace_back();
      column.decimal = layout.format.decimal;
      column.name = seen.has_header && i < layout.header.size() ? layout.header[i] : std::to_string(i + 1);
    }
    if (cells.size() != columns.size())
      throw core::Error(file.string() + ":" + std::to_string(records.line()) + ": this row has " +
                        std::to_string(cells.size()) + " columns, and the first one " + std::to_string(columns.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) columns[i].add(core::trimmed(cells[i]), records.is_quoted(i));
    ++seen.num_rows;
  }
}

/// Adds the objects of JSON lines.
void read_objects(std::string_view text, const fs::path& file, SeenRows& seen, std::vector<Column>& columns) {
  seen.is_jsonl = true;
  while (!text.empty()) {
    if (seen.num_rows == kMostRows) {
      seen.is_part = true;
      return;
    }
    const std::string_view line = core::trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    if (line.empty()) continue;
    const auto object = core::parse_json_or_discard(line);
    if (!object.is_object())
      throw core::Error(file.string() + ": row " + std::to_string(seen.num_rows + 1) + " is no JSON object");
    for (const auto& [name, value] : object.items()) {
      auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.name == name; });
      if (found == columns.end()) {
        found = columns.emplace(columns.end());
        found->name = name;
        found->num_missing = seen.num_rows;
      }
      found->add(value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump());
    }
    ++seen.num_rows;
  }
}

/// Ends the reading of a file.
struct EnoughRows {};

/// Adds the rows of a Parquet file, each cell as text.
void read_parquet(const fs::path& file, SeenRows& seen, std::vector<Column>& columns) {
  std::vector<dataset::ParquetType> types;
  const auto choose = [&](const std::vector<dataset::ParquetColumn>& stored) {
    std::vector<int> all;
    std::vector<std::string> names;
    for (const dataset::ParquetColumn& column : stored) {
      names.push_back(column.name);
      types.push_back(column.type);
      all.push_back(static_cast<int>(all.size()));
    }
    for (std::string& name : dataset::unique_names(std::move(names))) columns.emplace_back().name = std::move(name);
    return all;
  };
  const auto use = [&](const dataset::ParquetRow& row) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i].add(row.text_of(i), types[i] == dataset::ParquetType::text);
    if (++seen.num_rows < kMostRows) return;
    seen.is_part = true;
    throw EnoughRows{};
  };
  try {
    dataset::read_parquet_file(file, choose, use);
  } catch (const EnoughRows&) {
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].numbers = types[i] == dataset::ParquetType::number;
    columns[i].dates = types[i] == dataset::ParquetType::date;
  }
}

const Column& column_of(const std::vector<Column>& columns, const std::string& name, const fs::path& file) {
  std::vector<std::string> names;
  for (const Column& column : columns) {
    if (column.name == name) return column;
    names.push_back(column.name);
  }
  throw core::Error(file.string() + ": there is no column '" + name + "'; the columns are " + core::list_words(names));
}

/// Returns the column with the label: that of a usual name, else the last one without texts.
const Column& guess_label(const std::vector<Column>& columns) {
  for (const char* usual : kLabelNames)
    for (const Column& column : columns)
      if (lower(column.name) == usual) return column;
  const auto last =
      std::find_if_not(columns.rbegin(), columns.rend(), [](const Column& column) { return column.is_text(); });
  return last == columns.rend() ? columns.back() : *last;
}

/// Returns the column of texts with the most words per text; null if no column has texts.
const Column* guess_text(const std::vector<Column>& columns, const Column& label) {
  const Column* best = nullptr;
  const auto words = [](const Column& column) {
    return static_cast<double>(column.num_words) / static_cast<double>(column.num_present);
  };
  for (const Column& column : columns)
    if (&column != &label && column.is_text() && (best == nullptr || words(column) > words(*best))) best = &column;
  return best;
}

/// Returns the column of words with the most different values: that of short texts. Objects of numbers alone are an
/// Error, since tables are read from CSV and Parquet.
const Column& most_varied_words(const std::vector<Column>& columns, const Column& label, const fs::path& file) {
  const Column* best = nullptr;
  for (const Column& column : columns)
    if (&column != &label && !column.numbers && !column.dates &&
        (best == nullptr || column.values.size() > best->values.size()))
      best = &column;
  if (best != nullptr) return *best;
  throw core::Error(file.string() + " has no member with texts, and a table is read from CSV, TSV or Parquet")
      .hint("write its rows as CSV, for example with jq or pandas");
}

Counts sorted_counts(const Column& column) {
  Counts counts(column.values.begin(), column.values.end());
  std::sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return counts;
}

/// Returns whether the values of a label are numbers to predict: many different ones, or any fractions.
bool is_value(const Column& label) {
  constexpr std::size_t kMostNumberedClasses = 20;
  if (!label.numbers) return false;
  const bool has_fractions = std::any_of(label.values.begin(), label.values.end(), [](const auto& one) {
    return one.first.find_first_of(".eE") != std::string::npos;
  });
  return label.values.size() > kMostNumberedClasses || (has_fractions && label.values.size() > 2);
}

/// Returns the file beside `file` whose name has the first of these words in place of `train` that any file has.
std::optional<std::string> set_beside(const fs::path& file, std::initializer_list<const char*> words) {
  const std::string name = file.filename().string();
  const std::size_t place = name.find("train");
  if (place == std::string::npos) return std::nullopt;
  for (const char* word : words) {
    const fs::path beside = file.parent_path() / (name.substr(0, place) + word + name.substr(place + 5));
    if (fs::is_regular_file(beside)) return beside.string();
  }
  return std::nullopt;
}

/// Finds the sets beside a file: `validation` and `test` in place of `train`, or adult.test beside adult.data. A test
/// set alone is taken for evaluation.
void find_other_sets(const fs::path& file, const InspectOptions& options, SeenRows& seen) {
  seen.eval = options.eval.empty() ? set_beside(file, {"eval", "valid", "validation", "val", "dev"})
                                   : std::optional(options.eval);
  seen.test = set_beside(file, {"test"});
  if (const fs::path test = fs::path(file).replace_extension(".test");
      file.extension() == ".data" && fs::is_regular_file(test))
    seen.test = test.string();
  if (!seen.eval) seen.eval = std::exchange(seen.test, std::nullopt);
  if (seen.test == seen.eval) seen.test = std::nullopt;
}

void read_columns(const fs::path& file, const InspectOptions& options, SeenRows& seen, std::vector<Column>& columns) {
  const dataset::TextFormat format = dataset::format_of(file.string(), dataset::TextFormat::auto_);
  if (format == dataset::TextFormat::parquet) return read_parquet(file, seen, columns);
  const dataset::TextFile content(file);
  const std::string_view text = content.text();
  if (format == dataset::TextFormat::jsonl)
    read_objects(text, file, seen, columns);
  else
    read_table(text, file, options, seen, columns);
}

}  // namespace

SeenRows inspect_rows(const fs::path& file, const InspectOptions& options) {
  SeenRows seen{.train = file.string(), .eval = std::nullopt, .columns = {}, .label = "", .classes = {}};
  std::vector<Column> columns;
  read_columns(file, options, seen, columns);
  if (seen.num_rows == 0) throw core::Error(file.string() + " has no rows");
  if (columns.size() == 1 && seen.is_jsonl && columns.front().is_text()) {
    seen.text = columns.front().name;
    return seen;
  }
  if (columns.size() < 2) throw core::Error(file.string() + " has one column; expected inputs and a label");
  const Column& label = options.label.empty() ? guess_label(columns) : column_of(columns, options.label, file);
  const Column* texts = options.text.empty() ? guess_text(columns, label) : &column_of(columns, options.text, file);
  if (texts == nullptr && seen.is_jsonl) texts = &most_varied_words(columns, label, file);
  seen.label = label.name;
  seen.label_is_guessed = options.label.empty();
  seen.label_is_value = is_value(label);
  if (texts != nullptr) seen.text = texts->name;
  if (!seen.label_is_value) seen.classes = sorted_counts(label);
  if (static_cast<std::int64_t>(seen.classes.size()) > kMostClasses)
    throw core::Error(file.string() + ": column '" + label.name + "' has more than " +
                      core::format_count(kMostClasses) + " different values, too many for classes")
        .hint("name the column with the label by --label");
  for (const Column& column : columns)
    seen.columns.push_back({.name = column.name,
                            .kind = column.kind(),
                            .num_missing = column.num_missing,
                            .num_distinct = static_cast<std::int64_t>(column.values.size())});
  find_other_sets(file, options, seen);
  return seen;
}

}  // namespace trainctl::data_tools
