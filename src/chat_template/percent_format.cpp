// `"%s: %5.2f" % (a, b)`, as Python formats it.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "chat_template/operations.h"
#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

/// A conversion: %[flags][width][.precision]letter.
struct Conversion {
  std::string flags{};
  std::size_t width = 0;
  int precision = -1;
  char letter = 's';
};

std::size_t read_number(const std::string& format, std::size_t& at) {
  std::size_t number = 0;
  while (at < format.size() && format[at] >= '0' && format[at] <= '9' && number < 10'000)
    number = number * 10 + static_cast<std::size_t>(format[at++] - '0');
  return number;
}

Conversion read_conversion(const std::string& format, std::size_t& at) {
  Conversion conversion;
  while (at < format.size() && std::string_view("-+ 0#").find(format[at]) != std::string_view::npos)
    conversion.flags += format[at++];
  conversion.width = read_number(format, at);
  if (at < format.size() && format[at] == '.') conversion.precision = static_cast<int>(read_number(format, ++at));
  if (at == format.size()) throw TemplateProblem("incomplete format");
  conversion.letter = format[at++];
  return conversion;
}

/// Returns an integer as Python writes it: in any base a sign and the magnitude's digits.
std::string integer_text(const Conversion& conversion, std::int64_t number) {
  const bool is_decimal = conversion.letter == 'd' || conversion.letter == 'i';
  const std::uint64_t magnitude =
      number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  const auto has = [&](char flag) { return conversion.flags.find(flag) != std::string::npos; };
  char buffer[32];
  const char pattern[] = {'%', 'l', 'l', is_decimal ? 'u' : conversion.letter, '\0'};
  std::snprintf(buffer, sizeof buffer, pattern, static_cast<unsigned long long>(magnitude));  // NOLINT
  std::string digits = buffer;
  std::string sign = number < 0 ? "-" : has('+') ? "+" : has(' ') ? " " : "";
  if (has('#') && !is_decimal) sign += std::string("0") + conversion.letter;
  const auto zeros = [&](std::size_t size) {
    return size > digits.size() ? std::string(size - digits.size(), '0') : "";
  };
  digits = zeros(static_cast<std::size_t>(std::max(conversion.precision, 0))) + digits;
  if (has('0') && !has('-') && conversion.width > sign.size()) digits = zeros(conversion.width - sign.size()) + digits;
  const std::size_t size = sign.size() + digits.size();
  const std::string blanks(conversion.width > size ? conversion.width - size : 0, ' ');
  return has('-') ? sign + digits + blanks : blanks + sign + digits;
}

std::string formatted_number(const Conversion& conversion, const Value& value) {
  const auto number = value.as_number();
  if (!number) throw TemplateProblem("a number is required, not " + std::string(value.type_name()));
  if (std::string_view("dixXo").find(conversion.letter) != std::string_view::npos)
    return integer_text(conversion, value.as_integer().value_or(static_cast<std::int64_t>(std::trunc(*number))));
  const std::string pattern = "%" + conversion.flags + std::to_string(conversion.width) + "." +
                              std::to_string(conversion.precision < 0 ? 6 : conversion.precision) + conversion.letter;
  const int size = std::snprintf(nullptr, 0, pattern.c_str(), *number);  // NOLINT: the pattern is made above
  std::string text(static_cast<std::size_t>(std::max(size, 0)) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern.c_str(), *number);  // NOLINT: as above
  text.pop_back();
  return text;
}

std::string converted(const Conversion& conversion, const Value& value) {
  if (std::string_view("dixXoeEfFgG").find(conversion.letter) != std::string_view::npos)
    return formatted_number(conversion, value);
  if (conversion.letter != 's' && conversion.letter != 'r')
    throw TemplateProblem("the format %" + std::string(1, conversion.letter) + " is not supported");
  std::u32string codes = code_points(conversion.letter == 's' ? value.printed() : value.represented());
  if (conversion.precision >= 0 && codes.size() > static_cast<std::size_t>(conversion.precision))
    codes.resize(static_cast<std::size_t>(conversion.precision));
  const std::size_t missing = conversion.width > codes.size() ? conversion.width - codes.size() : 0;
  const bool at_left = conversion.flags.find('-') != std::string::npos;
  return (at_left ? "" : std::string(missing, ' ')) + utf8(codes) + (at_left ? std::string(missing, ' ') : "");
}

}  // namespace

std::string percent_formatted(const std::string& format, const std::vector<Value>& values) {
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    const Conversion conversion = read_conversion(format, ++at);
    if (conversion.letter == '%') {
      out += '%';
      continue;
    }
    if (used == values.size()) throw TemplateProblem("not enough arguments for format string");
    out += converted(conversion, values[used++]);
  }
  if (used < values.size()) throw TemplateProblem("not all arguments converted during string formatting");
  return out;
}

}  // namespace trainctl::chat_template
