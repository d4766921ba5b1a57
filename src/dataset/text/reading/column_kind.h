// What the cells of a column are, and their values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainctl::dataset {

enum class ColumnKind { number, category, date };

/// Returns whether a cell stands for no value: empty, NA, N/A, NaN, null, None or "?".
bool is_missing(std::string_view cell);

/// Returns the finite number, or the truth value as 1 or 0, that the cell holds; none if the cell holds neither.
std::optional<float> number_in(std::string_view cell);

/// Returns the days since 1970-01-01 of a cell such as 2024-05-31, 2024/5/31, 2024-05-31 12:30 or 2024-05-31T12:30:00Z;
/// none if the cell holds no such date. A time zone is passed over.
std::optional<float> date_in(std::string_view cell);

/// "number", "category" or "date".
const char* name_of(ColumnKind kind);
/// Returns the kind of that name; throws core::Error if there is none.
ColumnKind column_kind_of_name(const std::string& name);

}  // namespace trainctl::dataset
