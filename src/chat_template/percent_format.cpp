// `"%s: %5.2f" % (a, b)`, as Python formats it.
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

std::string number_text(const Conversion& conversion, const Value& value) {
  char buffer[512];
  const bool is_integer = std::string_view("dixXo").find(conversion.letter) != std::string_view::npos;
  const auto number = value.as_number();
  if (!number) throw TemplateProblem("a number is required, not " + std::string(value.type_name()));
  if (is_integer) {
    const std::string pattern = "%" + conversion.flags + std::to_string(conversion.width) + "ll" +
                                (conversion.letter == 'i' ? 'd' : conversion.letter);
    const long long whole = value.as_integer().value_or(static_cast<std::int64_t>(std::trunc(*number)));
    std::snprintf(buffer, sizeof buffer, pattern.c_str(), whole);  // NOLINT: the pattern is made above
    return buffer;
  }
  const std::string pattern = "%" + conversion.flags + std::to_string(conversion.width) + "." +
                              std::to_string(conversion.precision < 0 ? 6 : conversion.precision) + conversion.letter;
  std::snprintf(buffer, sizeof buffer, pattern.c_str(), *number);  // NOLINT: the pattern is made above
  return buffer;
}

std::string converted(const Conversion& conversion, const Value& value) {
  if (std::string_view("dixXoeEfFgG").find(conversion.letter) != std::string_view::npos)
    return number_text(conversion, value);
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
