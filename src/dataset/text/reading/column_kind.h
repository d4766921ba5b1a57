// What the cells of a column are, and their values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::dataset {

enum class ColumnKind { number, category, date };

/// Returns whether a cell stands for no value: "?", or what pandas.read_csv reads as NaN. Those are empty cells, NA,
/// n/a, N/A, NaN, null, None and so on. Source: pandas/_libs/parsers.pyx, STR_NA_VALUES.
bool is_missing(std::string_view cell);

/// Returns whether a cell is one of pandas.read_csv's truth values: True, TRUE, true, False, FALSE, false.
bool is_truth_value(std::string_view cell);

/// Returns the number, or the truth value as 1 or 0, that the cell holds; none if the cell holds neither. Blanks may be
/// around a number. It is infinite for inf, and for what is beyond a double. `decimal`: '.' or ','.
std::optional<double> number_in(std::string_view cell, char decimal = '.');

/// Returns one text for all spellings of a number or of a truth value: that of 1, 01, +1 and 1.0 is "1". None for other
/// cells.
std::optional<std::string> text_of_value(std::string_view cell, char decimal = '.');

/// Returns the places of two names that are one value in two spellings, which pandas reads as one. Where a name is a
/// text, all are. Empty names have no value.
std::optional<std::pair<std::size_t, std::size_t>> spelled_twice(const std::vector<std::string>& names, char decimal);

/// Returns the days since 1970-01-01 of a cell such as 2024-05-31, 2024/5/31, 2024-05-31 12:30 or 2024-05-31T12:30:00Z;
/// none if the cell holds no such date. A time with a zone, +02:00, is that of UTC.
std::optional<double> date_in(std::string_view cell);

/// "number", "category" or "date".
const char* name_of(ColumnKind kind);
/// Returns the kind of that name; throws core::Error if there is none.
ColumnKind column_kind_of_name(const std::string& name);

}  // namespace trainctl::dataset
