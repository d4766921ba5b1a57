// How a text table is laid out: what its first rows show, and what the config says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "dataset/text/reading/table_records.h"

namespace trainctl::dataset {

/// How the caller chooses columns.
enum class ColumnChoice {
  by_name,    // a header must name the columns
  by_number,  // a header may be there
};

/// Returns how columns are chosen: by number if all of them are numbers.
ColumnChoice choice_of(std::span<const std::string> columns);

/// What is known of a text table. The rows show the rest.
struct KnownLayout {
  std::optional<char> separator{};  // or kWhitespace
  char usual_separator = ',';       // of files with such a name: decides where rows fit several
  std::optional<char> decimal{};
  Quoting quotes = Quoting::auto_;
  config::AutoOr<std::int64_t> header_lines{};
  std::optional<bool> has_header{};  // as the training files, if no header_lines are stated
  std::int64_t max_line_bytes = 64 << 20;
};

struct TableLayout {
  TableFormat format;
  bool has_separator_line = false;      // "sep=;", which Excel reads and writes before everything else
  std::int64_t comment_lines = 0;       // before the header: records with fewer cells than the rows
  std::int64_t header_lines = 0;        // of which the first names the columns
  std::vector<std::string> header{};    // unique_names()
  std::vector<std::string> findings{};  // what the rows showed, to be told: "columns are separated by ';'"

  /// Returns the records of the rows: comments and header are passed over.
  TableRecords open_rows(const std::filesystem::path& file, std::string_view text) const;
};

/// Returns the names with each of them once, as in pandas.read_csv: a second `x` is `x.1`, and a first column without a
/// name is `Unnamed: 0`. Adds what was changed to `findings`.
std::vector<std::string> unique_names(std::vector<std::string> names, std::vector<std::string>* findings = nullptr);

/// Returns the number, from 0, of a column that is chosen by its name or by its number from 1. Throws core::Error, with
/// the columns that there are, if there is no such column.
std::size_t column_of(const std::string& name, const std::vector<std::string>& header, const std::string& path);

/// Finds what isn't known by the first 10,000 rows, or 4 MiB. The separator is the one by which most rows have as many
/// cells. Among several, it is the one by which most cells are numbers or dates. Numbers have a decimal comma where a
/// column is made of such numbers, and no column of numbers with a point. Columns that are chosen by name have a
/// header. Otherwise a header is words over a column of numbers, short titles over texts, or words that don't come
/// again below. It may be numbers that rise by one from column to column. An index needs no title. A header of Orange's
/// tables has three lines: names, types, and roles. Throws core::Error if the text ends before the header, or has
/// columns of both decimal signs.
TableLayout layout_of_table(const std::filesystem::path& file, std::string_view text, const KnownLayout& known,
                            ColumnChoice choice);

}  // namespace trainctl::dataset
