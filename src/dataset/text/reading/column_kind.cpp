#include "dataset/text/reading/column_kind.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kLongestNumber = 1000;
constexpr std::string_view kBlanksAroundNumbers = " \t\n\v\f\r";  // as in pandas' isspace_ascii

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

/// Takes "+02:00", "+0200" or "+02" off the front and returns it in seconds; none if it is no zone.
std::optional<double> take_zone(std::string_view& text) {
  const double sign = text.starts_with('-') ? -1 : 1;
  text.remove_prefix(1);
  std::string_view first = text.substr(0, 2);
  const std::optional<int> hours = take_digits(first, 2, 2);
  if (!hours || *hours > 23) return std::nullopt;
  text.remove_prefix(2);
  if (text.empty()) return sign * *hours * 3600;
  take(text, ':');
  const std::optional<int> minutes = take_digits(text, 2, 2);
  return !minutes || *minutes > 59 ? std::nullopt : std::optional(sign * (*hours * 3600 + *minutes * 60));
}

/// Takes ".25" off the front and returns it; 0 if there is none.
double take_fraction(std::string_view& text) {
  if (!text.starts_with('.')) return 0;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", 1), text.size());
  double fraction = 0;
  std::from_chars(text.data(), text.data() + end, fraction);
  text.remove_prefix(end);
  return fraction;
}

/// Returns the share of a day of "12:30", "12:30:59" or "12:30:59.25", in UTC if a time zone follows; none if it is no
/// time.
std::optional<double> time_in(std::string_view text) {
  const std::optional<int> hour = take_digits(text, 1, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const std::optional<int> minute = take_digits(text, 2, 2);
  if (!minute || *hour > 23 || *minute > 59) return std::nullopt;
  double second = 0;
  if (take(text, ':')) {
    const std::optional<int> read = take_digits(text, 2, 2);
    if (!read || *read > 59) return std::nullopt;
    second = *read + take_fraction(text);
  }
  double zone = 0;
  if (text == "Z" || text == " UTC") {
    text = {};
  } else if (text.starts_with('+') || text.starts_with('-')) {
    const std::optional<double> read = take_zone(text);
    if (!read) return std::nullopt;
    zone = *read;
  }
  if (!text.empty()) return std::nullopt;
  return (*hour * 3600.0 + *minute * 60.0 + second - zone) / 86'400;
}

bool is_true(std::string_view cell) {
  return cell == "TRUE" || cell == "True" || cell == "true";
}

}  // namespace

bool is_missing(std::string_view cell) {
  static constexpr std::string_view kMissing[] = {"",     "NA",       "NaN",     "nan",      "?",      "N/A",    "n/a",
                                                  "null", "NULL",     "None",    "<NA>",     "#N/A",   "-NaN",   "-nan",
                                                  "#NA",  "#N/A N/A", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"};
  return std::find(std::begin(kMissing), std::end(kMissing), cell) != std::end(kMissing);
}

bool is_truth_value(std::string_view cell) {
  return is_true(cell) || cell == "FALSE" || cell == "False" || cell == "false";
}

std::optional<double> number_in(std::string_view cell, char decimal) {
  if (is_truth_value(cell)) return is_true(cell) ? 1 : 0;
  std::string with_point;
  std::string_view digits = core::trimmed(cell, kBlanksAroundNumbers);
  if ((take(digits, '+') && digits.starts_with('-')) || digits.size() > kLongestNumber) return std::nullopt;
  if (decimal != '.') {
    if (digits.find('.') != std::string_view::npos) return std::nullopt;
    with_point = digits;
    if (const std::size_t sign = with_point.find(decimal); sign != std::string::npos) with_point[sign] = '.';
    digits = with_point;
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem == std::errc::invalid_argument || end != digits.data() + digits.size() || std::isnan(value))
    return std::nullopt;
  // Beyond a double's range from_chars gives no value; strtod tells the infinite from the tiny.
  return problem == std::errc() ? value : std::strtod(std::string(digits).c_str(), nullptr);
}

std::optional<std::string> text_of_value(std::string_view cell, char decimal) {
  if (is_truth_value(cell)) return is_true(cell) ? "True" : "False";
  const std::optional<double> value = number_in(cell, decimal);
  if (!value) return std::nullopt;
  std::string_view digits = core::trimmed(cell, kBlanksAroundNumbers);
  const bool is_negative = take(digits, '-');
  take(digits, '+');
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) {
    constexpr double kExact = 0x1p53;
    if (std::abs(*value) < kExact && *value == std::trunc(*value))
      return std::to_string(static_cast<std::int64_t>(*value));
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", *value);
    return text;
  }
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (is_negative && digits != "0" ? "-" : "") + std::string(digits);
}

std::optional<std::pair<std::size_t, std::size_t>> spelled_twice(const std::vector<std::string>& names, char decimal) {
  std::map<std::string, std::size_t> values;
  std::optional<std::pair<std::size_t, std::size_t>> same;
  std::optional<bool> are_truth_values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;  // no value
    const std::optional<std::string> value = text_of_value(names[i], decimal);
    if (!value || is_truth_value(names[i]) != are_truth_values.value_or(is_truth_value(names[i]))) return std::nullopt;
    are_truth_values = is_truth_value(names[i]);
    const auto [found, is_new] = values.emplace(*value, i);
    if (!is_new && !same) same = {found->second, i};
  }
  return same;
}

std::optional<double> date_in(std::string_view cell) {
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
  if (cell.empty()) return days;
  if (!take(cell, 'T') && !take(cell, ' ')) return std::nullopt;
  const std::optional<double> time = time_in(cell);
  if (!time) return std::nullopt;
  return days + *time;
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
