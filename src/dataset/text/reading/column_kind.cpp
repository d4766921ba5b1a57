#include "dataset/table/column_kind.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "core/error.h"

namespace trainctl::dataset {
namespace {

/// Takes the digits at the beginning of `text`; none if there are fewer than `least` or more than `most`.
std::optional<int> take_digits(std::string_view& text, std::size_t least, std::size_t most) {
  std::size_t count = 0;
  while (count < text.size() && count <= most && text[count] >= '0' && text[count] <= '9') ++count;
  if (count < least || count > most) return std::nullopt;
  int value = 0;
  std::from_chars(text.data(), text.data() + count, value);
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

/// Returns the share of a day of "12:30", "12:30:59" or "12:30:59.25", with or without a time zone; none if it is no
/// time.
std::optional<double> time_in(std::string_view text) {
  const std::optional<int> hour = take_digits(text, 1, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const std::optional<int> minute = take_digits(text, 2, 2);
  if (!minute || *hour > 24 || *minute > 59) return std::nullopt;
  int second = 0;
  if (take(text, ':')) {
    const std::optional<int> read = take_digits(text, 2, 2);
    if (!read || *read > 60) return std::nullopt;
    second = *read;
    if (take(text, '.')) take_digits(text, 1, 9);
  }
  if (!text.empty() && text != "Z" && text[0] != '+' && text[0] != '-' && text != " UTC") return std::nullopt;
  return (*hour * 3600.0 + *minute * 60.0 + second) / 86'400;
}

}  // namespace

bool is_missing(std::string_view cell) {
  static constexpr std::string_view kMissing[] = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"};
  return std::find(std::begin(kMissing), std::end(kMissing), cell) != std::end(kMissing);
}

std::optional<float> number_in(std::string_view cell) {
  if (cell == "TRUE" || cell == "True" || cell == "true") return 1.0F;
  if (cell == "FALSE" || cell == "False" || cell == "false") return 0.0F;
  float value = 0;
  const std::string_view digits = cell.starts_with('+') ? cell.substr(1) : cell;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool read = problem == std::errc() || problem == std::errc::result_out_of_range;
  if (!read || end != digits.data() + digits.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<float> date_in(std::string_view cell) {
  const std::optional<int> year = take_digits(cell, 4, 4);
  if (!year) return std::nullopt;
  const char separator = cell.empty() ? ' ' : cell.front();
  if ((separator != '-' && separator != '/') || !take(cell, separator)) return std::nullopt;
  const std::optional<int> month = take_digits(cell, 1, 2);
  if (!month || !take(cell, separator)) return std::nullopt;
  const std::optional<int> day = take_digits(cell, 1, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year{*year}, std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)});
  if (!date.ok()) return std::nullopt;
  const auto days = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  if (cell.empty()) return static_cast<float>(days);
  if (!take(cell, 'T') && !take(cell, ' ')) return std::nullopt;
  const std::optional<double> time = time_in(cell);
  if (!time) return std::nullopt;
  return static_cast<float>(days + *time);
}

const char* name_of(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::number:
      return "number";
    case ColumnKind::category:
      return "category";
    case ColumnKind::date:
      return "date";
  }
  throw std::logic_error("unknown kind of column");
}

ColumnKind column_kind_of_name(const std::string& name) {
  for (const ColumnKind kind : {ColumnKind::number, ColumnKind::category, ColumnKind::date})
    if (name == name_of(kind)) return kind;
  throw core::Error("a column is of kind '" + name + "'; expected number, category or date");
}

}  // namespace trainctl::dataset
