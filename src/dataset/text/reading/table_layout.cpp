#include "dataset/text/reading/table_layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kRowsLookedAt = 100;
constexpr std::size_t kBytesLookedAt = std::size_t{4} << 20;

using Rows = std::vector<std::vector<std::string>>;

/// Returns the first records; fewer if a quoted cell never ends.
Rows first_rows(std::string_view text, const TableFormat& format) {
  Rows rows;
  TableRecords records("", text, format);
  try {
    std::size_t bytes = 0;
    while (rows.size() < kRowsLookedAt && bytes < kBytesLookedAt && records.next()) {
      rows.push_back(records.cells());
      for (const std::string& cell : rows.back()) bytes += cell.size();
    }
  } catch (const core::Error&) {  // whoever reads the rows reports it with its place
  }
  return rows;
}

/// Returns the number of cells that most rows have.
std::size_t usual_width(const Rows& rows) {
  std::map<std::size_t, std::size_t> counts;
  for (const auto& row : rows) ++counts[row.size()];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? 0 : most->first;
}

/// Returns the share of rows with the usual number of cells; 0 if rows have one cell.
double agreement(const Rows& rows) {
  const std::size_t width = usual_width(rows);
  if (width < 2) return 0;
  const auto same = std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.size() == width; });
  return static_cast<double>(same) / static_cast<double>(rows.size());
}

bool is_number(const std::string& cell) {
  const std::string_view trimmed = core::trimmed(cell);
  const std::string_view digits = trimmed.starts_with('+') ? trimmed.substr(1) : trimmed;
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return problem == std::errc() && end == digits.data() + digits.size();
}

bool is_empty(const std::string& cell) {
  const std::string_view trimmed = core::trimmed(cell);
  return trimmed.empty() || trimmed == "?" || trimmed == "NA";
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
bool has_names(const Rows& rows, std::size_t first) {
  for (std::size_t column = 0; column < rows[first].size(); ++column) {
    bool numbers = false;
    bool others = false;
    for (std::size_t row = first + 1; row < rows.size() && !others; ++row) {
      if (column >= rows[row].size() || is_empty(rows[row][column])) continue;
      numbers = true;
      others = !is_number(rows[row][column]);
    }
    if (numbers && !others && !is_number(rows[first][column]) && !is_empty(rows[first][column])) return true;
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

}  // namespace

ColumnChoice choice_of(std::span<const std::string> columns) {
  return std::all_of(columns.begin(), columns.end(), core::is_number) ? ColumnChoice::by_number : ColumnChoice::by_name;
}

TableRecords TableLayout::open_rows(const std::filesystem::path& file, std::string_view text) const {
  TableRecords records(file, text, format);
  for (std::int64_t i = 0; i < comment_lines + header_lines; ++i) records.next();
  return records;
}

char separator_of(std::string_view text, char usual) {
  constexpr double kEnough = 0.9;
  char best = usual;
  double best_agreement = 0;
  for (const char separator : {usual, '\t', ',', ';', '|'}) {
    const Quoting quotes = separator == '\t' ? Quoting::none : Quoting::rfc4180;
    const double found = agreement(first_rows(text, {.separator = separator, .quotes = quotes}));
    if (separator == usual && found >= kEnough) return usual;
    if (found > best_agreement) best_agreement = found, best = separator;
  }
  return best;
}

std::size_t column_of(const std::string& name, const std::vector<std::string>& header, const std::string& path) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  if (core::is_number(name) && std::stoul(name) >= 1 && std::stoul(name) <= header.size()) return std::stoul(name) - 1;
  const std::string near = core::nearest_word(name, header);
  throw core::Error(path + ": there is no column '" + name + "'; the columns are " + core::list_words(header))
      .hint(near.empty() ? "columns are chosen by name, or by number from 1" : "did you mean " + near + "?");
}

TableLayout layout_of_table(const std::filesystem::path& file, std::string_view text, TableFormat format,
                            const config::AutoOr<std::int64_t>& header_lines, ColumnChoice choice) {
  TableLayout layout{.format = format};
  const Rows rows = first_rows(text, format);
  const std::size_t width = usual_width(rows);
  const auto is_comment = [&](const auto& row) { return row.size() < width && row.size() == 1; };
  const auto first = static_cast<std::size_t>(std::find_if_not(rows.begin(), rows.end(), is_comment) - rows.begin());
  if (header_lines.value) {
    layout.header_lines = *header_lines.value;
  } else {
    layout.comment_lines = static_cast<std::int64_t>(first);
    const bool names = choice == ColumnChoice::by_name ||
                       (first < rows.size() && (has_names(rows, first) || has_titles_over_texts(rows, first)));
    layout.header_lines = has_orange_header(rows, first) ? 3 : names ? 1 : 0;
  }
  TableRecords records(file, text, format);
  for (std::int64_t i = 0; i < layout.comment_lines + layout.header_lines; ++i) {
    if (!records.next()) throw core::Error(file.string() + " ends before its header does");
    if (i == layout.comment_lines) layout.header = records.cells();
  }
  return layout;
}

}  // namespace trainctl::dataset
