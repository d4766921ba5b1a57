#include "dataset/text/reading/table_layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "dataset/text/reading/column_kind.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kRowsLookedAt = 10'000;
constexpr std::size_t kBytesLookedAt = std::size_t{4} << 20;
constexpr std::size_t kRowsOfHeader = 100;  // by which a header is told from rows
constexpr int kOrangeHeaderLines = 3;

using Rows = std::vector<std::vector<std::string>>;

/// Records at the beginning of a text.
struct FirstRows {
  Rows rows;
  bool ends_in_quotes = false;  // a quoted cell never ends
};

FirstRows first_rows(std::string_view text, const TableFormat& format) {
  FirstRows first;
  TableRecords records("", text, format);
  try {
    std::size_t bytes = 0;
    while (first.rows.size() < kRowsLookedAt && bytes < kBytesLookedAt && records.next()) {
      first.rows.push_back(records.cells());
      for (const std::string& cell : first.rows.back()) bytes += cell.size();
    }
  } catch (const core::Error&) {  // whoever reads the rows reports it with its place
    first.ends_in_quotes = true;
  }
  return first;
}

/// Returns the number of cells that most rows have.
std::size_t usual_width(const Rows& rows) {
  std::map<std::size_t, std::size_t> counts;
  for (const auto& row : rows) ++counts[row.size()];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? 0 : most->first;
}

bool is_number(const std::string& cell, char decimal = '.') {
  return number_in(core::trimmed(cell), decimal).has_value();
}

bool has_comma(const std::string& cell) {
  return cell.find(',') != std::string::npos;
}

bool has_point(const std::string& cell) {
  return cell.find('.') != std::string::npos;
}

bool is_empty(const std::string& cell) {
  return is_missing(core::trimmed(cell));
}

/// How well a separator fits the first rows.
struct Fit {
  double agreement = 0;  // share of rows with the usual number of cells; 0 if rows have one cell
  double typed = 0;      // share of cells that are numbers or dates
};

Fit fit_of(const FirstRows& first, char separator) {
  const std::size_t width = usual_width(first.rows);
  if (width < 2) return {};
  std::size_t same = 0;
  std::size_t cells = 0;
  std::size_t typed = 0;
  for (const auto& row : first.rows) {
    if (row.size() != width) continue;
    ++same;
    for (const std::string& cell : row) {
      ++cells;
      typed += is_number(cell) || (separator != ',' && is_number(cell, ',')) || date_in(core::trimmed(cell));
    }
  }
  return {.agreement = static_cast<double>(same) / static_cast<double>(first.rows.size()),
          .typed = static_cast<double>(typed) / static_cast<double>(cells)};
}

/// Returns how cells are quoted. Quotes mean nothing in a table with tabs where one of them never ends.
Quoting quoting_of(const KnownLayout& known, char separator, std::string_view text) {
  if (known.quotes != Quoting::auto_ || separator != '\t')
    return known.quotes == Quoting::auto_ ? Quoting::rfc4180 : known.quotes;
  return first_rows(text, {.separator = separator}).ends_in_quotes ? Quoting::none : Quoting::rfc4180;
}

/// Returns the separator that the first rows agree on. Colons and blanks, which cells have, must fit every row, and are
/// tried where nothing else fits.
char separator_of(std::string_view text, const KnownLayout& known) {
  constexpr double kEnough = 0.9;
  char best = known.usual_separator;
  Fit best_fit;
  const auto try_one = [&](char separator, double least) {
    const Fit fit =
        fit_of(first_rows(text, {.separator = separator, .quotes = quoting_of(known, separator, text)}), separator);
    if (fit.agreement < least || fit.agreement < best_fit.agreement ||
        (fit.agreement == best_fit.agreement && fit.typed <= best_fit.typed))
      return;
    best = separator;
    best_fit = fit;
  };
  for (const char separator : {known.usual_separator, ',', ';', '\t', '|'}) try_one(separator, 0);
  if (best_fit.agreement >= kEnough) return best;
  for (const char separator : {kWhitespace, ':'}) try_one(separator, 1);
  return best;
}

/// Returns whether a column, from a row on, is made of numbers with this decimal sign, and has the sign.
bool has_decimals(const Rows& rows, std::size_t begin, std::size_t column, char decimal,
                  bool (*has_sign)(const std::string&)) {
  bool any = false;
  for (std::size_t row = begin; row < rows.size(); ++row) {
    if (column >= rows[row].size() || is_empty(rows[row][column])) continue;
    if (!is_number(rows[row][column], decimal)) return false;
    any = any || has_sign(rows[row][column]);
  }
  return any;
}

/// Returns the decimal sign of the rows from `begin` on.
char decimal_of(const std::filesystem::path& file, const Rows& rows, std::size_t begin, char separator) {
  if (separator == ',') return '.';
  std::size_t comma = 0;  // a column from 1
  std::size_t point = 0;
  for (std::size_t column = 0; column < usual_width(rows); ++column) {
    if (has_decimals(rows, begin, column, ',', has_comma)) comma = column + 1;
    if (has_decimals(rows, begin, column, '.', has_point)) point = column + 1;
  }
  if (comma > 0 && point > 0)
    throw core::Error(file.string() + ": numbers have a decimal comma in column " + std::to_string(comma) +
                      ", and a decimal point in column " + std::to_string(point))
        .hint("dataset.decimal says which sign numbers have; the other column is one of categories then");
  return comma > 0 ? ',' : '.';
}

/// Takes the first line off, however lines end.
void drop_line(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.starts_with('\r')) text.remove_prefix(1);
  if (text.starts_with('\n')) text.remove_prefix(1);
}

/// Takes the line off with which Excel names the separator: "sep=;".
std::optional<char> take_separator_line(std::string_view& text) {
  if (text.size() < 6 || !text.starts_with("sep=") || (text[5] != '\n' && text[5] != '\r')) return std::nullopt;
  const char separator = text[4];
  drop_line(text);
  return separator;
}

/// Says what a reader of plain CSV would not expect.
void describe_format(const TableFormat& format, std::vector<std::string>& findings) {
  if (format.separator == kWhitespace)
    findings.emplace_back("columns are separated by blanks");
  else if (format.separator != ',' && format.separator != '\t')
    findings.push_back(std::string("columns are separated by '") + format.separator + "'");
  if (format.decimal == ',') findings.emplace_back("numbers have a decimal comma");
}

/// Returns whether all cells are among the words, and one of them isn't empty.
template <std::size_t Count>
bool has_only(const std::vector<std::string>& cells, const std::array<std::string_view, Count>& words) {
  const auto is_word = [&](const std::string& cell) {
    return cell.empty() || std::find(words.begin(), words.end(), cell) != words.end();
  };
  return std::all_of(cells.begin(), cells.end(), is_word) &&
         std::any_of(cells.begin(), cells.end(), [](const std::string& cell) { return !cell.empty(); });
}

/// Returns whether the rows begin with the three header lines of Orange's tab-delimited format: names, types, roles.
bool has_orange_header(const Rows& rows, std::size_t first) {
  static constexpr std::array<std::string_view, 11> kTypes = {"c",      "d",    "s", "t", "continuous", "discrete",
                                                              "string", "time", "C", "D", "S"};
  static constexpr std::array<std::string_view, 7> kRoles = {"class", "meta", "ignore", "weight", "c", "m", "i"};
  return rows.size() > first + 2 && has_only(rows[first + 1], kTypes) && has_only(rows[first + 2], kRoles);
}

/// Returns whether the first row has names where the others have numbers.
bool has_names(const Rows& rows, std::size_t first, char decimal) {
  for (std::size_t column = 0; column < rows[first].size(); ++column) {
    bool numbers = false;
    bool others = false;
    for (std::size_t row = first + 1; row < rows.size() && !others; ++row) {
      if (column >= rows[row].size() || is_empty(rows[row][column])) continue;
      numbers = true;
      others = !is_number(rows[row][column], decimal);
    }
    if (numbers && !others && !is_number(rows[first][column], decimal) && !is_empty(rows[first][column])) return true;
  }
  return false;
}

double words_in(const std::string& cell) {
  const std::string_view text = core::trimmed(cell);
  return text.empty() ? 0 : 1 + static_cast<double>(std::count(text.begin(), text.end(), ' '));
}

/// Returns whether the first row has short titles, and a column has texts below. No title is a cell of its column.
bool has_titles_over_texts(const Rows& rows, std::size_t first) {
  constexpr double kWordsOfTexts = 6;   // on average
  constexpr double kWordsOfTitles = 3;  // at most
  const auto cell_at = [&](std::size_t row, std::size_t column) {
    return column < rows[row].size() ? rows[row][column] : std::string();
  };
  bool over_texts = false;
  for (std::size_t column = 0; column < rows[first].size(); ++column) {
    const std::string& title = rows[first][column];
    if (is_empty(title) || words_in(title) > kWordsOfTitles) return false;
    double num_words = 0;
    for (std::size_t row = first + 1; row < rows.size(); ++row) {
      if (cell_at(row, column) == title) return false;
      num_words += words_in(cell_at(row, column));
    }
    over_texts = over_texts || num_words > kWordsOfTexts * static_cast<double>(rows.size() - first - 1);
  }
  return over_texts && rows.size() > first + 1;
}

/// Returns whether a column has no title, and another word or whole number in each row: the index that pandas' to_csv()
/// writes.
bool is_index(const Rows& rows, std::size_t first, std::size_t column) {
  if (!core::trimmed(rows[first][column]).empty()) return false;
  std::set<std::string> values;
  for (std::size_t row = first + 1; row < rows.size(); ++row) {
    if (column >= rows[row].size() || is_empty(rows[row][column])) return false;
    const std::string value(core::trimmed(rows[row][column]));
    if ((is_number(value) && !core::is_number(value)) || !values.insert(value).second) return false;
  }
  return values.size() > 1;
}

/// Returns how many whole numbers a row has, if they rise by one from cell to cell; otherwise 0.
std::size_t count_numbered(const std::vector<std::string>& row) {
  std::optional<unsigned long> last;
  std::size_t count = 0;
  for (const std::string& cell : row) {
    const std::string text(core::trimmed(cell));
    if (!core::is_number(text)) continue;
    const unsigned long number = std::stoul(text);
    if (last && number != *last + 1) return 0;
    last = number;
    ++count;
  }
  return count;
}

/// Returns whether the first row numbers the columns, as pandas does where they have no names: 0, 1, 2; or years. The
/// rows must bear that out. An index before the numbers does, or a column that repeats itself without its title. So
/// does a number over words or fractions alone, and three numbers of which none comes again.
bool has_numbers_for_names(const Rows& rows, std::size_t first) {
  const std::size_t count = count_numbered(rows[first]);
  const std::size_t below = rows.size() - first - 1;
  if (count == 0 || below < 2) return false;
  if (is_index(rows, first, 0)) return count > 1 || core::trimmed(rows[first][1]) == "0";
  const auto num_alike = std::count_if(rows.begin() + static_cast<std::ptrdiff_t>(first) + 1, rows.end(),
                                       [&](const auto& row) { return count_numbered(row) > 1; });
  if (count == 1 || 2 * static_cast<std::size_t>(num_alike) > below) return false;
  bool any_comes_again = false;
  bool any_stands_out = false;
  for (std::size_t column = 0; column < rows[first].size(); ++column) {
    const std::string title(core::trimmed(rows[first][column]));
    if (is_empty(title)) return false;
    std::set<std::string> values;
    for (std::size_t row = first + 1; row < rows.size(); ++row)
      if (column < rows[row].size()) values.emplace(core::trimmed(rows[row][column]));
    const bool comes_again = values.contains(title);
    any_comes_again = any_comes_again || comes_again;
    const bool has_whole = std::any_of(values.begin(), values.end(), core::is_number);
    any_stands_out =
        any_stands_out || (!comes_again && (2 * values.size() <= below || (core::is_number(title) && !has_whole)));
  }
  return any_stands_out || (count > 2 && !any_comes_again);
}

/// Returns whether the first row has words of its own: none comes again in its column, although a column below repeats
/// itself. An index needs no title.
bool has_words_of_its_own(const Rows& rows, std::size_t first) {
  const std::size_t below = rows.size() - first - 1;
  if (below < 2) return false;
  bool any_repeats = false;
  std::set<std::string> titles;
  for (std::size_t column = 0; column < rows[first].size(); ++column) {
    const std::string& title = rows[first][column];
    if (is_index(rows, first, column)) continue;
    if (is_empty(title) || is_number(title) || date_in(core::trimmed(title)) || !titles.insert(title).second)
      return false;
    std::set<std::string> values;
    for (std::size_t row = first + 1; row < rows.size(); ++row)
      if (column < rows[row].size()) values.insert(rows[row][column]);
    if (values.contains(title)) return false;
    any_repeats = any_repeats || 2 * values.size() <= below;
  }
  return any_repeats;
}

}  // namespace

ColumnChoice choice_of(std::span<const std::string> columns) {
  return std::all_of(columns.begin(), columns.end(), core::is_number) ? ColumnChoice::by_number : ColumnChoice::by_name;
}

// Columns without a name, and repeated names, are called as in pandas/io/parsers/base_parser.py, _dedup_names.
std::vector<std::string> unique_names(std::vector<std::string> names, std::vector<std::string>* findings) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (core::trimmed(names[i]).empty()) {
      names[i] = "Unnamed: " + std::to_string(i);
      if (findings != nullptr)
        findings->push_back("column " + std::to_string(i + 1) + " has no name, and is called '" + names[i] + "'");
    }
  std::set<std::string> taken(names.begin(), names.end());
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string given = names[i];
    std::size_t number = seen[given]++;
    if (number == 0) continue;
    while (taken.contains(names[i] = given + "." + std::to_string(number))) ++number;
    seen[given] = number + 1;
    taken.insert(names[i]);
    if (findings != nullptr)
      findings->push_back("column " + std::to_string(i + 1) + ", another '" + given + "', is called '" + names[i] +
                          "'");
  }
  return names;
}

TableRecords TableLayout::open_rows(const std::filesystem::path& file, std::string_view text) const {
  if (has_separator_line) drop_line(text);
  TableRecords records(file, text, format, has_separator_line ? 2 : 1);
  for (std::int64_t i = 0; i < comment_lines + header_lines; ++i) records.next();
  return records;
}

std::size_t column_of(const std::string& name, const std::vector<std::string>& header, const std::string& path) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  if (core::is_number(name) && std::stoul(name) >= 1 && std::stoul(name) <= header.size()) return std::stoul(name) - 1;
  const auto is_same = [&](const std::string& other) { return core::trimmed(other, " ") == core::trimmed(name, " "); };
  const auto but_for_blanks = std::find_if(header.begin(), header.end(), is_same);
  const std::string near = but_for_blanks != header.end() ? *but_for_blanks : core::nearest_word(name, header);
  throw core::Error(path + ": there is no column '" + name + "'; the columns are " + core::list_words(header))
      .hint(near.empty() ? "columns are chosen by name, or by number from 1" : "did you mean '" + near + "'?");
}

TableLayout layout_of_table(const std::filesystem::path& file, std::string_view text, const KnownLayout& known,
                            ColumnChoice choice) {
  TableLayout layout;
  std::string_view rest = text;
  const std::optional<char> written = take_separator_line(rest);
  layout.has_separator_line = written.has_value();
  const char separator = known.separator ? *known.separator : written ? *written : separator_of(rest, known);
  layout.format = {.separator = separator,
                   .decimal = '.',
                   .quotes = quoting_of(known, separator, rest),
                   .max_line_bytes = known.max_line_bytes};
  Rows rows = first_rows(rest, layout.format).rows;
  const std::size_t width = usual_width(rows);
  const auto is_comment = [&](const auto& row) { return row.size() < width && row.size() == 1; };
  const auto first = static_cast<std::size_t>(std::find_if_not(rows.begin(), rows.end(), is_comment) - rows.begin());
  const std::size_t begin = known.header_lines.value
                                ? static_cast<std::size_t>(*known.header_lines.value)
                                : first + (has_orange_header(rows, first) ? kOrangeHeaderLines : 1);
  layout.format.decimal = known.decimal ? *known.decimal : decimal_of(file, rows, begin, separator);
  describe_format(layout.format, layout.findings);
  if (rows.size() > first + kRowsOfHeader) rows.resize(first + kRowsOfHeader);
  if (known.header_lines.value) {
    layout.header_lines = *known.header_lines.value;
  } else {
    layout.comment_lines = static_cast<std::int64_t>(first);
    const bool is_looked_for = !known.has_header && choice == ColumnChoice::by_number;
    const bool names = is_looked_for
                           ? first < rows.size() &&
                                 (has_names(rows, first, layout.format.decimal) || has_titles_over_texts(rows, first) ||
                                  has_words_of_its_own(rows, first) || has_numbers_for_names(rows, first))
                           : known.has_header.value_or(true);
    layout.header_lines = has_orange_header(rows, first) ? kOrangeHeaderLines : names ? 1 : 0;
    if (first > 0)
      layout.findings.push_back(std::to_string(first) + (first == 1 ? " line before the table is passed over"
                                                                    : " lines before the table are passed over"));
    if (is_looked_for)
      layout.findings.emplace_back(names ? "the first line names the columns" : "no line names the columns");
  }
  TableRecords records(file, rest, layout.format, layout.has_separator_line ? 2 : 1);
  for (std::int64_t i = 0; i < layout.comment_lines + layout.header_lines; ++i) {
    if (!records.next()) throw core::Error(file.string() + " ends before its header does");
    if (i == layout.comment_lines) layout.header = unique_names(records.cells(), &layout.findings);
  }
  return layout;
}

}  // namespace trainctl::dataset
