#include "data_tools/inspect_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
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
constexpr std::size_t kFewClasses = 4;  // which a few rows may have
constexpr std::array kTextNames = {"text", "texts", "content", "document", "body"};
/// The names that GLUE, SNLI, PAWS and MS MARCO give two texts of one label.
constexpr std::array<std::array<const char*, 2>, 10> kPairNames = {{{"sentence1", "sentence2"},
                                                                    {"sentence_a", "sentence_b"},
                                                                    {"text1", "text2"},
                                                                    {"text_a", "text_b"},
                                                                    {"question1", "question2"},
                                                                    {"premise", "hypothesis"},
                                                                    {"question", "sentence"},
                                                                    {"question", "passage"},
                                                                    {"query", "passage"},
                                                                    {"query", "document"}}};
constexpr std::array kIdNames = {"id", "idx", "index", "uuid", "guid", "url", "uri", "timestamp"};
constexpr std::array kQuestionNames = {"instruction", "instructions", "question", "query", "prompt",
                                       "problem",     "input",        "user",     "human", "source"};
constexpr std::array kAnswerNames = {"output",    "outputs", "answer", "answers",  "response", "completion",
                                     "assistant", "reply",   "gpt",    "solution", "chosen"};
constexpr std::array kWordLists = {"tokens", "words"};
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
  bool is_index = false;                                   // of a pandas.DataFrame
  std::string structure{};                                 // "array" or "object", if a member is one in any row
  std::int64_t structure_line = 0;                         // the first such row
  std::unordered_map<std::string, std::int64_t> values{};  // at most kMostDistinct
  std::map<std::string, std::int64_t> quoted_missing{};    // "NA" in quotes: a text, but no number and no date

  /// Returns whether the cell has a value, as far as the rows show.
  bool add(std::string_view cell, bool is_text = false) {
    if (is_text && !cell.empty() && dataset::is_missing(cell)) {
      ++quoted_missing[std::string(cell)];
      return !numbers && !dates;
    }
    if (is_text ? cell.empty() : dataset::is_missing(cell)) {
      ++num_missing;
      return false;
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
    return true;
  }
  /// Decides on the quoted cells, when all rows have shown whether these are numbers or dates.
  void settle_quoted() {
    for (const auto& [cell, count] : std::exchange(quoted_missing, {})) {
      if (numbers || dates) {
        num_missing += count;
        continue;
      }
      num_present += count;
      num_words += count;
      values[cell] += count;
    }
  }
  bool is_text() const {
    return num_present > 0 && !numbers && !dates &&
           static_cast<double>(num_words) > kWordsOfTexts * static_cast<double>(num_present);
  }
  bool is_called(std::span<const char* const> names) const {
    return std::find(names.begin(), names.end(), lower_case(name)) != names.end();
  }
  /// Returns whether most values differ from all others, as those of texts, names and numbers of rows do.
  bool is_varied() const {
    return values.size() > kFewClasses && 2 * static_cast<std::int64_t>(values.size()) > num_present;
  }
  /// Returns why the column is no input; "" if it is one.
  std::string why_left_out() const {
    if (is_index) return "the index of a pandas.DataFrame";
    if (num_present == 0) return "no value in any row";
    return structure.empty() ? "" : "an " + structure;
  }
  const char* kind() const { return is_text() ? "text" : numbers ? "number" : dates ? "date" : "category"; }
};

/// Returns how the user names columns.
dataset::ColumnChoice choice_of(const InspectOptions& options) {
  std::vector<std::string> named;
  for (const std::string& name : {options.label, options.text})
    if (!name.empty()) named.push_back(name);
  return dataset::choice_of(named);
}

/// Counts rows by how many of their cells have no value.
using RowsByMissing = std::map<std::size_t, std::int64_t>;

/// Returns how many rows lack a value in a column that has values. Columns without any value are missing in each row.
std::int64_t count_incomplete(const RowsByMissing& rows, const std::vector<Column>& columns) {
  const auto num_empty = static_cast<std::size_t>(std::ranges::count(columns, std::int64_t{0}, &Column::num_present));
  std::int64_t count = 0;
  for (auto row = rows.upper_bound(num_empty); row != rows.end(); ++row) count += row->second;
  return count;
}

/// Adds the rows of a text table.
void read_table(std::string_view text, const fs::path& file, const InspectOptions& options, SeenRows& seen,
                std::vector<Column>& columns) {
  const dataset::TableLayout layout =
      dataset::layout_of_table(file, text, dataset::known_layout(dataset::TableConfig(), file), choice_of(options));
  seen.has_header = layout.header_lines > 0;
  dataset::TableRecords records = layout.open_rows(file, text);
  RowsByMissing rows;
  while (records.next()) {
    seen.is_part = seen.num_rows == kMostRows;
    if (seen.is_part) break;
    const std::vector<std::string>& cells = records.cells();
    for (std::size_t i = columns.size(); i < cells.size() && seen.num_rows == 0; ++i) {
      Column& column = columns.emplace_back();
      column.decimal = layout.format.decimal;
      column.name = seen.has_header && i < layout.header.size() ? layout.header[i] : std::to_string(i + 1);
    }
    if (cells.size() != columns.size())
      throw core::Error(file.string() + ":" + std::to_string(records.line()) + ": this row has " +
                        std::to_string(cells.size()) + " columns, and the first one " + std::to_string(columns.size()));
    std::size_t num_missing = 0;
    for (std::size_t i = 0; i < cells.size(); ++i)
      num_missing += columns[i].add(core::trimmed(cells[i]), records.is_quoted(i)) ? 0 : 1;
    ++rows[num_missing];
    ++seen.num_rows;
  }
  std::ranges::for_each(columns, &Column::settle_quoted);
  seen.num_incomplete = count_incomplete(rows, columns);
}

/// Adds the objects of JSON lines.
void read_objects(std::string_view text, const fs::path& file, SeenRows& seen, std::vector<Column>& columns) {
  seen.is_jsonl = true;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    seen.is_part = seen.num_rows == kMostRows;
    if (seen.is_part) break;
    const std::string_view line = core::trimmed(dataset::take_line(text), " \t\r");
    if (line.empty()) continue;
    const auto object = core::parse_json_or_discard<nlohmann::ordered_json>(line);
    if (!object.is_object()) throw core::Error(dataset::place_of(file, number) + ": this line is no JSON object");
    for (const auto& [name, value] : object.items()) {
      auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.name == name; });
      if (found == columns.end()) {
        found = columns.emplace(columns.end());
        found->name = name;
      }
      if (value.is_structured() && found->structure.empty()) {
        found->structure = value.type_name();
        found->structure_line = number;
      }
      found->add(value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump());
    }
    ++seen.num_rows;
  }
  for (Column& column : columns) column.num_missing = seen.num_rows - column.num_present;
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
    for (std::size_t i = 0; i < stored.size(); ++i) {
      columns[i].is_index = stored[i].is_index;
      columns[i].numbers = types[i] == dataset::ParquetType::number;
      columns[i].dates = types[i] == dataset::ParquetType::date;
    }
    return all;
  };
  RowsByMissing rows;
  const auto use = [&](const dataset::ParquetRow& row) {
    std::size_t num_missing = 0;
    for (std::size_t i = 0; i < columns.size(); ++i)
      num_missing += columns[i].add(row.text_of(i), types[i] == dataset::ParquetType::text) ? 0 : 1;
    ++rows[num_missing];
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
    columns[i].settle_quoted();
  }
  seen.num_incomplete = count_incomplete(rows, columns);
}

/// Returns the columns that the user names by their names, where they were named by their numbers.
InspectOptions with_names(InspectOptions options, const std::vector<Column>& columns, const fs::path& file) {
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back(column.name);
  for (std::string* column : {&options.label, &options.text})
    if (!column->empty()) *column = names[dataset::column_of(*column, names, file.string())];
  return options;
}

const Column& column_named(const std::vector<Column>& columns, const std::string& name) {
  return *std::find_if(columns.begin(), columns.end(), [&](const Column& column) { return column.name == name; });
}

/// Returns the column with the label: that of a usual name, else the last one that has neither texts nor ids. Null if
/// there is none.
const Column* guess_label(const std::vector<Column>& columns) {
  for (const char* usual : kLabelNames)
    for (const Column& column : columns)
      if (lower_case(column.name) == usual) return &column;
  const auto last = std::find_if_not(columns.rbegin(), columns.rend(), [](const Column& column) {
    return column.is_text() || column.is_called(kIdNames) || column.name.ends_with("_id");
  });
  return last == columns.rend() ? nullptr : &*last;
}

/// Returns the column of texts that have no label: one with a usual name, beside which nothing has a label's name. Null
/// if there is none.
const Column* unlabelled_texts(const std::vector<Column>& columns, const Column* label) {
  if (label != nullptr && (label->is_called(kLabelNames) || label->numbers || !label->is_varied())) return nullptr;
  const auto texts = std::find_if(columns.begin(), columns.end(), [](const Column& column) {
    return column.is_text() && column.is_called(kTextNames);
  });
  return texts == columns.end() ? nullptr : &*texts;
}

const Column* find_called(const std::vector<Column>& columns, std::span<const char* const> names) {
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const Column& column) { return column.is_called(names); });
  return found == columns.end() ? nullptr : &*found;
}

/// Refuses pairs of answers, and answers to questions: other kinds of datasets read them.
void refuse_answers(const std::vector<Column>& columns, const fs::path& file) {
  constexpr std::array kChosen = {"chosen"};
  constexpr std::array kRejected = {"rejected"};
  if (find_called(columns, kChosen) != nullptr && find_called(columns, kRejected) != nullptr)
    throw core::Error(file.string() + ": 'chosen' and 'rejected' are answers, of which one is preferred, and no labels")
        .hint(
            "a trained network learns preferences from JSON lines (dataset.kind: preference, task.kind: dpo): "
            "docs/guides/preferences.md");
  const Column* question = find_called(columns, kQuestionNames);
  const Column* answer = find_called(columns, kAnswerNames);
  if (question == nullptr || answer == nullptr || answer->numbers) return;
  if (!answer->is_varied() && answer->structure.empty()) return;
  const bool has_input = lower_case(question->name) == "instruction" &&
                         std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.name == "input"; });
  throw core::Error(file.string() + ": '" + answer->name + "' has answers to '" + question->name + "', and no labels")
      .hint("write conversations as JSON lines, and give --from these: jq -c '{prompt: " +
            (has_input ? "(.instruction + \"\\n\" + .input)" : ".[\"" + question->name + "\"]") + ", completion: .[\"" +
            answer->name + "\"]}' data.jsonl > chat.jsonl; or name a column of classes by --label");
}

/// Refuses lists in the place of a label.
void refuse_lists(const std::vector<Column>& columns, const fs::path& file) {
  const Column* words = find_called(columns, kWordLists);
  const auto is_list = [&](const Column& column) { return &column != words && column.structure == "array"; };
  if (const auto tags = std::find_if(columns.begin(), columns.end(), is_list);
      words != nullptr && words->structure == "array" && tags != columns.end())
    throw core::Error(dataset::place_of(file, words->structure_line) + ": '" + words->name + "' and '" + tags->name +
                      "' are lists of words and of their tags")
        .hint("dataset.kind: text_token_classification reads them: docs/reference.md");
  const Column* label = find_called(columns, kLabelNames);
  if (label != nullptr && !label->structure.empty())
    throw core::Error(dataset::place_of(file, label->structure_line) + ": '" + label->name +
                      "' should be a text or a number, but is an " + label->structure)
        .hint("a text has one label; name another member by --label");
}

/// Moves the columns that are no inputs out of `columns`, except those that the user names.
std::vector<Column> take_left_out(std::vector<Column>& columns, const InspectOptions& options) {
  const auto is_used = [&](const Column& column) {
    return column.name == options.label || column.name == options.text || column.why_left_out().empty();
  };
  const auto end = std::stable_partition(columns.begin(), columns.end(), is_used);
  std::vector<Column> left_out(std::make_move_iterator(end), std::make_move_iterator(columns.end()));
  columns.erase(end, columns.end());
  return left_out;
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

/// Makes two columns of texts, whose names are usual for a pair, the network's input.
void take_pair(const std::vector<Column>& columns, SeenRows& seen) {
  const auto texts_called = [&](const char* name) {
    const auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& column) {
      return column.name != seen.label && !column.numbers && lower_case(column.name) == name;
    });
    return found == columns.end() ? std::optional<std::string>() : std::optional(found->name);
  };
  for (const auto& [first_name, second_name] : kPairNames)
    if (const auto first = texts_called(first_name), second = texts_called(second_name); first && second) {
      seen.text = first;
      seen.text_pair = second;
      return;
    }
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

/// Returns whether the values of a label are numbers to predict: many different ones, or any fractions. Numbers with a
/// point that are close together may be classes. pandas writes 0.0, 1.0, 2.0 for a column with missing values.
bool is_value(const Column& label) {
  constexpr std::size_t kMostNumberedClasses = 20;
  if (!label.numbers) return false;
  bool has_fractions = false;
  bool has_points = false;
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -smallest;
  for (const auto& [text, count] : label.values) {
    const double value = dataset::number_in(text, label.decimal).value_or(0);
    has_fractions = has_fractions || value != std::trunc(value);
    has_points = has_points || (!dataset::is_truth_value(text) && (text.find_first_of("eE") != std::string::npos ||
                                                                   text.find(label.decimal) != std::string::npos));
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  const bool are_apart = has_points && largest - smallest >= static_cast<double>(kMostNumberedClasses);
  return label.values.size() > kMostNumberedClasses || ((has_fractions || are_apart) && label.values.size() > 2);
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

SeenRows inspect_rows(const fs::path& file, const InspectOptions& asked) {
  SeenRows seen{.train = file.string(), .eval = std::nullopt, .columns = {}, .label = "", .classes = {}};
  std::vector<Column> columns;
  read_columns(file, asked, seen, columns);
  if (seen.num_rows == 0) throw core::Error(file.string() + " has no rows");
  const InspectOptions options = with_names(asked, columns, file);
  if (options.label.empty()) {
    refuse_answers(columns, file);
    refuse_lists(columns, file);
  }
  const std::vector<Column> left_out = take_left_out(columns, options);
  if (columns.size() == 1 && seen.is_jsonl && columns.front().is_text()) {
    seen.text = columns.front().name;
    return seen;
  }
  if (columns.size() < 2)
    throw core::Error(file.string() + " has " + (columns.empty() ? "no column" : "one column") +
                      (left_out.empty() ? "" : " with values") + "; expected inputs and a label");
  const Column* guess = options.label.empty() ? guess_label(columns) : &column_named(columns, options.label);
  if (const Column* texts = options.label.empty() ? unlabelled_texts(columns, guess) : nullptr) {
    seen.text = texts->name;
    return seen;
  }
  if (guess == nullptr)
    throw core::Error(file.string() + ": no column looks like a label").hint("name the column by --label");
  const Column& label = *guess;
  const Column* texts = options.text.empty() ? guess_text(columns, label) : &column_named(columns, options.text);
  if (texts == nullptr && seen.is_jsonl) texts = &most_varied_words(columns, label, file);
  seen.label = label.name;
  seen.label_is_guessed = options.label.empty();
  seen.label_is_value = is_value(label);
  if (texts != nullptr) seen.text = texts->name;
  if (texts != nullptr && options.text.empty()) take_pair(columns, seen);
  if (!seen.label_is_value) seen.classes = sorted_counts(label);
  if (static_cast<std::int64_t>(seen.classes.size()) > kMostClasses)
    throw core::Error(file.string() + ": column '" + label.name + "' has more than " +
                      core::format_count(kMostClasses) + " different values, too many for classes")
        .hint("name the column with the label by --label");
  if (!seen.label_is_value) check_classes(file.string() + ": column '" + label.name + "'", seen.classes);
  const auto add = [&](const Column& column, std::string why_left_out) {
    seen.columns.push_back({.name = column.name,
                            .kind = column.kind(),
                            .num_missing = column.num_missing,
                            .num_distinct = static_cast<std::int64_t>(column.values.size()),
                            .left_out = std::move(why_left_out)});
  };
  for (const Column& column : columns) add(column, "");
  for (const Column& column : left_out) add(column, column.why_left_out());
  return seen;
}

MissingValues missing_values(const fs::path& file, const SeenRows& training) {
  SeenRows seen{.train = "", .eval = std::nullopt, .columns = {}, .label = "", .classes = {}};
  std::vector<Column> columns;
  read_columns(file, {.label = training.label}, seen, columns);
  MissingValues missing{.every_label = true};
  for (const Column& column : columns) {
    if (column.name == training.label) {
      missing.every_label = column.num_present == 0;
      missing.any_label = column.num_missing > 0;
    }
    missing.any_number = missing.any_number ||
                         (column.num_missing > 0 &&
                          std::any_of(training.columns.begin(), training.columns.end(), [&](const auto& known) {
                            return known.name == column.name && known.name != training.label && known.needs_values();
                          }));
  }
  return missing;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void check_classes(const std::string& subject, const Counts& classes) {
  std::int64_t num_samples = 0;
  for (const auto& [name, count] : classes) num_samples += count;
  if (classes.size() == 1)
    throw core::Error(subject + " has one label, '" + classes.front().first + "', for all samples")
        .hint("classes are told apart; name another column by --label");
  if (classes.size() > kFewClasses && 2 * std::ssize(classes) > num_samples)
    throw core::Error(subject + " has " + core::format_count(classes.size()) + " different labels for " +
                      core::format_count(num_samples) + " samples: these are no classes")
        .hint(
            "name the column with the label by --label; texts that answer texts are conversations "
            "(docs/guides/chat.md), or of dataset.kind: text_seq2seq");
}

}  // namespace trainctl::data_tools
