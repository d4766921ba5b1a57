// How a text table is laid out: what its first rows show.
#pragma once

#include <cstdint>
#include <filesystem>
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

struct TableLayout {
  TableFormat format;
  std::int64_t comment_lines = 0;  // before the header: records with fewer cells than the rows
  std::int64_t header_lines = 0;   // of which the first names the columns
  std::vector<std::string> header{};

  /// Returns the records of the rows: comments and header are passed over.
  TableRecords open_rows(const std::filesystem::path& file, std::string_view text) const;
};

/// Returns the separator that the first rows of a text agree on: `usual` if the rows have it, else a tab, comma,
/// semicolon or bar.
char separator_of(std::string_view text, char usual);

/// Returns the number, from 0, of a column that is chosen by its name or by its number from 1. Throws core::Error, with
/// the columns that there are, if there is no such column.
std::size_t column_of(const std::string& name, const std::vector<std::string>& header, const std::string& path);

/// Finds comments and header by the first rows. Columns that are chosen by name have a header. Otherwise a header is
/// words over a column of numbers, or short titles over texts. A header of Orange's tables has three lines: names,
/// types, and roles. `header_lines` counts them in place of that. Throws core::Error if the text ends before the
/// header.
TableLayout layout_of_table(const std::filesystem::path& file, std::string_view text, TableFormat format,
                            const config::AutoOr<std::int64_t>& header_lines, ColumnChoice choice);

}  // namespace trainctl::dataset
