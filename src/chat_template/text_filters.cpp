#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "chat_template/filter_tables.h"
#include "chat_template/operations.h"
#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

std::string soft_text(const Value& value) {
  return value.printed();
}

Value filter_trim(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "trim", {"chars"});
  const Value chars = given.get("chars", None{});
  if (chars.is<None>()) return Value::text(strip(soft_text(operand), StripSide::both));
  return Value::text(strip(soft_text(operand), StripSide::both, given.text("chars")));
}

template <LetterCase wanted>
Value filter_case(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "the filter", {});
  return checked_text(with_case(soft_text(operand), wanted));
}

/// Words begin after blanks, - and opening brackets, and not after an apostrophe as with str.title.
Value filter_title(const Value& operand) {
  std::string out;
  bool starts_word = true;
  for (const char32_t code : code_points(soft_text(operand))) {
    std::string letter;
    append_code_point(letter, code);
    out += with_case(letter, starts_word ? LetterCase::upper : LetterCase::lower);
    starts_word = is_python_space(code) || std::u32string_view(U"-({[<").find(code) != std::u32string_view::npos;
  }
  return checked_text(std::move(out));
}

Value filter_string(const Value& operand) {
  return Value::text(soft_text(operand));
}

Value filter_replace(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"});
  return checked_text(replaced(soft_text(operand), given.required("old").printed(), given.required("new").printed(),
                               given.integer("count", -1)));
}

Value filter_indent(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "indent", {"width", "first", "blank"});
  const Value width = given.get("width", std::int64_t{4});
  const std::string blanks = width.is_text() ? *width.as_text() : std::string(given.width("width", 4), ' ');
  if (!operand.is_text()) throw TemplateProblem("the filter 'indent' takes a text");
  const std::string text = *operand.as_text() + "\n";  // jinja2 adds it, so that the last line counts
  std::string out;
  bool is_first = true;
  for (const std::string& line : split_lines(text, false)) {
    const bool is_indented = is_first ? given.truth("first", false) : given.truth("blank", false) || !line.empty();
    out += (is_first ? "" : "\n") + (is_indented ? blanks : "") + line;
    is_first = false;
  }
  return checked_text(std::move(out));
}

Value filter_join(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "join", {"d", "attribute"});
  const std::string separator = given.get("d", Value::text("")).printed();
  const Value attribute = given.get("attribute", None{});
  std::string out;
  bool is_first = true;
  for (const Value& item : items_of(operand)) {
    out += (is_first ? "" : separator) + (attribute.is<None>() ? item : attribute_of(item, attribute)).printed();
    is_first = false;
  }
  return checked_text(std::move(out));
}

Value filter_tojson(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonFormat format{.ensure_ascii = given.truth("ensure_ascii", false), .sort_keys = given.truth("sort_keys", false)};
  const Value indent = given.get("indent", None{});
  if (const std::string* text = indent.as_text())
    format.indent = *text;
  else if (!indent.is<None>())
    format.indent = std::string(given.width("indent", 0), ' ');
  if (format.indent) format.item_separator = ",";
  const Value separators = given.get("separators", None{});
  if (const Sequence* pair = separators.as_sequence(); pair != nullptr && pair->items.size() == 2) {
    format.item_separator = pair->items[0].printed();
    format.key_separator = pair->items[1].printed();
  } else if (!separators.is<None>()) {
    throw TemplateProblem("separators must be a list of two texts");
  }
  return checked_text(to_json(operand, format));
}

/// Python's float(text); nothing where it fails.
std::optional<double> parsed_float(const std::string& text) {
  std::string digits = number_text(text, 10).value_or("");
  if (digits.starts_with("+-") || digits.ends_with(')')) return std::nullopt;  // nan(…) of C alone
  if (digits.starts_with('+')) digits.erase(0, 1);
  double number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  return error == std::errc() ? number : std::strtod(digits.c_str(), nullptr);  // out of range: infinite or 0
}

[[noreturn]] void refuse_size() {
  throw TemplateProblem("an integer is too large; expected one of 64 bits");
}

/// Returns the base that a prefix such as 0x gives, and removes the prefix. `base` 0 takes any; nothing if it has none.
std::optional<int> take_base(std::string& digits, int base) {
  const char letter = digits.size() > 1 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : ' ';
  const int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    digits.erase(0, 2);
    return prefixed;
  }
  if (base != 0) return base;
  const bool is_octal_in_c = digits.starts_with('0') && digits.find_first_not_of('0') != std::string::npos;
  return is_octal_in_c ? std::nullopt : std::optional(10);
}

/// Python's int(text, base); nothing where it fails.
std::optional<std::int64_t> parsed_integer(const std::string& text, std::int64_t base) {
  std::string digits = number_text(text, base).value_or("");
  if (digits.empty() || base < 0 || base == 1 || base > 36) return std::nullopt;
  const bool is_negative = digits.front() == '-';
  if (is_negative || digits.front() == '+') digits.erase(0, 1);
  const std::optional<int> known = take_base(digits, static_cast<int>(base));
  if (!known || digits.empty() || digits.front() == '-') return std::nullopt;
  if (is_negative) digits.insert(digits.begin(), '-');
  std::int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number, *known);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) refuse_size();
  return number;
}

Value filter_int(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "int", {"default", "base"});
  if (const auto* undefined = operand.get_if<Undefined>()) throw TemplateProblem(undefined->what);
  if (const auto integer = operand.as_integer()) return *integer;
  std::optional<double> number = operand.as_number();
  if (number && std::isinf(*number)) throw TemplateProblem("cannot convert float infinity to integer");
  if (const std::string* text = operand.as_text()) {
    if (const auto integer = parsed_integer(*text, given.integer("base", 10))) return *integer;
    number = parsed_float(*text);
  }
  if (!number || !std::isfinite(*number)) return given.get("default", std::int64_t{0});
  if (std::abs(*number) >= 0x1p63) refuse_size();
  return static_cast<std::int64_t>(std::trunc(*number));
}

Value filter_float(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "float", {"default"});
  if (const auto* undefined = operand.get_if<Undefined>()) throw TemplateProblem(undefined->what);
  if (const auto number = operand.as_number()) return *number;
  if (const std::string* text = operand.as_text())
    if (const auto number = parsed_float(*text)) return *number;
  return given.get("default", 0.0);
}

Value filter_abs(const Value& operand) {
  if (const auto integer = operand.as_integer()) return *integer < 0 ? negated(operand) : Value(*integer);
  if (const auto number = operand.as_number()) return std::abs(*number);
  throw TemplateProblem("bad operand type for abs(): '" + std::string(operand.type_name()) + "'");
}

/// Rounds as Python's round(): to the nearest decimal text of the exact value, and halves to even. An integer stays
/// one.
Value rounded(const Value& operand, double number, std::int64_t precision) {
  constexpr std::int64_t kMostDigits = 330;  // that a double has behind its point
  constexpr std::int64_t kMostTens = 18;     // of an int64
  if (precision >= 0) {
    if (const auto integer = operand.as_integer()) return *integer;
    if (!std::isfinite(number) || precision > kMostDigits) return operand;
    char text[700];
    std::snprintf(text, sizeof text, "%.*f", static_cast<int>(precision), number);
    return std::strtod(text, nullptr);
  }
  if (const auto integer = operand.as_integer()) {
    if (precision == -kMostTens - 1 && std::abs(number) > 5e18) refuse_size();
    if (precision < -kMostTens) return std::int64_t{0};
    std::int64_t unit = 1;
    for (std::int64_t i = 0; i > precision; --i) unit *= 10;
    const std::int64_t whole = *integer / unit;
    const std::int64_t twice = 2 * std::abs(*integer % unit);
    const bool goes_up = twice > unit || (twice == unit && whole % 2 != 0);
    std::int64_t result = 0;
    if (__builtin_mul_overflow(whole + (goes_up ? (*integer < 0 ? -1 : 1) : 0), unit, &result)) refuse_size();
    return result;
  }
  if (!std::isfinite(number)) return operand;
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::isfinite(unit) ? std::nearbyint(number / unit) * unit : std::copysign(0.0, number);
}

Value filter_round(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "round", {"precision", "method"});
  const auto number = operand.as_number();
  if (!number) throw TemplateProblem("round takes a number, got '" + std::string(operand.type_name()) + "'");
  if (const Value* const precision = given.find("precision"); precision != nullptr && precision->is<None>())
    throw TemplateProblem("round takes an integer as its precision, got none");
  const double scale = std::pow(10.0, static_cast<double>(given.integer("precision", 0)));
  const std::string method = given.get("method", Value::text("common")).printed();
  if (method == "ceil" || method == "floor") {
    const double scaled = *number * scale;
    const double result = (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
    if (!std::isfinite(result)) throw TemplateProblem("round has no finite result for " + operand.printed());
    return result;
  }
  if (method != "common") throw TemplateProblem("method must be common, ceil or floor");
  return rounded(operand, *number, given.integer("precision", 0));
}

Value filter_format(const Value& operand, const Arguments& arguments) {
  if (!arguments.named.empty()) throw TemplateProblem("format with named arguments is not supported");
  return checked_text(percent_formatted(soft_text(operand), arguments.positional));
}

Value filter_safe(const Value& operand) {
  return Value::markup(soft_text(operand));
}

Value filter_wordcount(const Value& operand) {
  std::size_t count = 0;
  bool is_inside = false;
  for (const char32_t code : code_points(soft_text(operand))) {  // Jinja counts \w+
    const bool is_word = code == U'_' || has_property(utf8(std::u32string_view(&code, 1)), TextProperty::alnum);
    if (is_word && !is_inside) ++count;
    is_inside = is_word;
  }
  return Value::number(count);
}

Value filter_center(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "center", {"width"});
  const std::string text = soft_text(operand);
  const std::size_t width = given.width("width", 80);
  const std::size_t size = count_code_points(text);
  if (width <= size) return Value::text(text);
  const std::size_t missing = width - size;
  const std::size_t left = missing / 2 + (missing & width & 1U);  // as str.center
  return Value::text(std::string(left, ' ') + text + std::string(missing - left, ' '));
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable table = {
      {"trim", filter_trim},
      {"upper", filter_case<LetterCase::upper>},
      {"lower", filter_case<LetterCase::lower>},
      {"title", without_arguments<filter_title>},
      {"capitalize", filter_case<LetterCase::capitalized>},
      {"string", without_arguments<filter_string>},
      {"replace", filter_replace},
      {"indent", filter_indent},
      {"join", filter_join},
      {"tojson", filter_tojson},
      {"int", filter_int},
      {"float", filter_float},
      {"abs", without_arguments<filter_abs>},
      {"round", filter_round},
      {"format", filter_format},
      {"safe", without_arguments<filter_safe>},
      {"wordcount", without_arguments<filter_wordcount>},
      {"center", filter_center},
  };
  return table;
}

}  // namespace trainctl::chat_template
