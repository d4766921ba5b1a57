// Python's json.dumps and repr of numbers.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat_template/python_text.h"
#include "chat_template/value.h"

namespace trainctl::chat_template {
namespace {

std::string hex4(unsigned unit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "\\u";
  for (const int shift : {12, 8, 4, 0}) text += kDigits[unit >> shift & 15U];
  return text;
}

std::string json_string(const std::string& text, bool ensure_ascii) {
  std::string out = "\"";
  for (const char32_t code : code_points(text)) {
    if (code == '"' || code == '\\')
      out += {'\\', static_cast<char>(code)};
    else if (code == '\n')
      out += "\\n";
    else if (code == '\r')
      out += "\\r";
    else if (code == '\t')
      out += "\\t";
    else if (code == '\f')
      out += "\\f";
    else if (code == '\b')
      out += "\\b";
    else if (code < 0x20 || (ensure_ascii && code >= 0x7F && code < 0x10000))
      out += hex4(static_cast<unsigned>(code));
    else if (ensure_ascii && code >= 0x10000)
      out += hex4(0xD800U + ((static_cast<unsigned>(code) - 0x10000U) >> 10U)) +
             hex4(0xDC00U + ((static_cast<unsigned>(code) - 0x10000U) & 0x3FFU));
    else
      append_code_point(out, code);
  }
  return out + "\"";
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return python_float(value);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonFormat& format) : format_(format) {}

  std::string write(const Value& value) {
    if (value.is<None>()) return "null";
    if (const auto* truth = value.get_if<bool>()) return *truth ? "true" : "false";
    if (const auto* integer = value.get_if<std::int64_t>()) return std::to_string(*integer);
    if (const auto* number = value.get_if<double>()) return json_float(*number);
    if (const auto* text = value.as_text()) return json_string(*text, format_.ensure_ascii);
    std::vector<std::string> parts;
    ++depth_;
    if (const auto* sequence = value.as_sequence(); sequence != nullptr && sequence->is_literal())
      for (const Value& item : sequence->items) parts.push_back(write(item));
    else if (const auto* mapping = value.as_mapping())
      parts = members(*mapping);
    else
      throw TemplateProblem("Object of type " + std::string(value.type_name()) + " is not JSON serializable");
    --depth_;
    return value.as_sequence() != nullptr ? enclosed('[', parts, ']') : enclosed('{', parts, '}');
  }

 private:
  std::vector<std::string> members(const Mapping& mapping) {
    std::vector<std::pair<std::string, const Value*>> items;
    for (const auto& [key, value] : mapping.items)
      items.emplace_back(key.is_text() ? *key.as_text() : write(key), &value);
    if (format_.sort_keys)
      std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> parts;
    for (const auto& [key, value] : items)
      parts.push_back(json_string(key, format_.ensure_ascii) + format_.key_separator + write(*value));
    return parts;
  }

  std::string enclosed(char open, const std::vector<std::string>& parts, char close) const {
    std::string text(1, open);
    for (std::size_t i = 0; i < parts.size(); ++i)
      text += (i > 0 ? format_.item_separator : "") + line(depth_ + 1) + parts[i];
    return text + (parts.empty() ? "" : line(depth_)) + close;
  }
  std::string line(int depth) const {
    std::string text;
    if (!format_.indent) return text;
    text = "\n";
    for (int i = 0; i < depth; ++i) text += *format_.indent;
    return text;
  }

  const JsonFormat& format_;
  int depth_ = 0;
};

}  // namespace

std::string to_json(const Value& value, const JsonFormat& format) {
  return JsonWriter(format).write(value);
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific).ptr;
  std::string text(std::begin(buffer), end);  // [-]d[.ddd]e±dd
  const std::string sign = text[0] == '-' ? "-" : "";
  const std::size_t mark = text.find('e');
  const int exponent = std::stoi(text.substr(mark + 1));
  std::string digits = text.substr(sign.size(), mark - sign.size());
  std::erase(digits, '.');
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string power = std::to_string(std::abs(exponent));
    if (power.size() < 2) power = "0" + power;
    return sign + digits.substr(0, 1) + (count > 1 ? "." + digits.substr(1) : "") + (exponent < 0 ? "e-" : "e+") +
           power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return sign + digits.substr(0, static_cast<std::size_t>(exponent + 1)) + "." +
         digits.substr(static_cast<std::size_t>(exponent + 1));
}

}  // namespace trainctl::chat_template
