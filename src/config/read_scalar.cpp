#include "config/read_scalar.h"

#include <charconv>
#include <cmath>

#include "core/text.h"

namespace trainctl::config {
namespace {

constexpr std::size_t kMaxQuoted = 60;

bool looks_numeric(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

/// Returns what YAML has in place of what other languages write; "" if the text is neither.
std::string written_elsewhere(const Node& node) {
  if (node.kind != NodeKind::scalar || node.style != ScalarStyle::plain) return "";
  const std::string& text = node.text;
  if (text == "None" || text == "none" || text == "nil") return "YAML's word for no value is null";
  const bool is_number = text.find_first_not_of("0123456789.,+-") == std::string::npos;
  if (is_number && text.find(',') != std::string::npos) return "a number has no comma, and a point before decimals";
  return "";
}

bool within(double value, const Limits& limits) {
  if (limits.exclusive_min ? value <= limits.min : value < limits.min) return false;
  return limits.exclusive_max ? value < limits.max : value <= limits.max;
}

class ScalarReader {
 public:
  ScalarReader(const Node& node, const std::string& path, Problems& problems)
      : node_(node), path_(path), problems_(problems) {}

  void boolean(bool& value) const {
    if (node_.is_word("true"))
      value = true;
    else if (node_.is_word("false"))
      value = false;
    else
      wrong("true or false", node_.text == "true" || node_.text == "false" ? "remove the quotes" : "");
  }

  void integer(const std::string& expected, const Limits& limits, std::int64_t& value) const {
    std::int64_t number = 0;
    const std::errc error = parse_number(number);
    if (error == std::errc::result_out_of_range) return wrong("an integer of at most 64 bits");
    if (error != std::errc() || node_.style == ScalarStyle::quoted) return wrong(expected, whole_number_hint());
    // YAML 1.1 reads 010 as 8, YAML 1.2 as 10.
    const std::size_t first = node_.text.find_first_not_of("+-");
    if (node_.text[first] == '0' && first + 1 < node_.text.size()) return wrong("an integer without leading zeros");
    if (!within(static_cast<double>(number), limits)) return wrong(expected);
    if (std::isinf(limits.max) && !limits.any_size && (number > kLargestCount || number < -kLargestCount))
      return wrong("an integer of at most " + std::to_string(kLargestCount));
    value = number;
  }

  void number(const std::string& expected, const Limits& limits, double& value) const {
    double number = 0;
    const std::errc error = parse_number(number);
    if (error == std::errc::result_out_of_range) return wrong("a number that a double can hold");
    if (error != std::errc() || !std::isfinite(number)) return wrong(expected);
    if (node_.style == ScalarStyle::quoted) return wrong(expected, "remove the quotes");
    if (!within(number, limits)) return wrong(expected);
    value = number;
  }

  void text(const Limits& limits, std::string& value) const {
    if (node_.kind != NodeKind::scalar) return wrong("a string");
    if (node_.text.size() < limits.min_items)
      return problems_.add(node_.origin, path_, "expected a string, got an empty one");
    value = node_.text;
  }

 private:
  void wrong(const std::string& expected, const std::string& hint = "") const {
    add_wrong(node_, path_, expected, hint, problems_);
  }

  /// Parses the whole scalar as a number; invalid_argument if it isn't one.
  template <class Number>
  std::errc parse_number(Number& number) const {
    if (node_.kind != NodeKind::scalar) return std::errc::invalid_argument;
    std::string_view digits = node_.text;
    if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return end == digits.data() + digits.size() ? error : std::errc::invalid_argument;
  }

  /// Returns the hint for a whole number that was written as 1e6, 3.0 or "3".
  std::string whole_number_hint() const {
    double number = 0;
    if (parse_number(number) != std::errc() || number != std::floor(number) || std::abs(number) > 1e15) return "";
    if (node_.style == ScalarStyle::quoted) return "remove the quotes";
    return "write " + std::to_string(static_cast<std::int64_t>(number));
  }

  const Node& node_;
  const std::string& path_;
  Problems& problems_;
};

}  // namespace

std::string shortened(const std::string& text) {
  if (text.size() <= kMaxQuoted) return text;
  std::size_t end = kMaxQuoted;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "…";
}

std::string got_text(const Node& node) {
  switch (node.kind) {
    case NodeKind::null:
      return "nothing";
    case NodeKind::sequence:
      return "a list";
    case NodeKind::mapping:
      return "a mapping";
    case NodeKind::scalar:
      break;
  }
  if (node.style == ScalarStyle::plain && looks_numeric(node.text)) return shortened(node.text);
  return "'" + shortened(node.text) + "'";
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::string nearest = core::nearest_word(word, known);
  return nearest.empty() ? "" : "did you mean '" + nearest + "'?";
}

void add_wrong(const Node& node, const std::string& path, const std::string& expected, const std::string& hint,
               Problems& problems) {
  const std::string help = hint.empty() ? written_elsewhere(node) : hint;
  problems.add(node.origin, path,
               "expected " + expected + ", got " + got_text(node) + (help.empty() ? "" : "; " + help));
}

std::optional<std::size_t> find_word(const Shape& shape, const Node& node, const std::string& path,
                                     Problems& problems) {
  if (node.kind == NodeKind::scalar)
    for (std::size_t i = 0; i < shape.words.size(); ++i)
      if (shape.words[i] == node.text) return i;
  const std::vector<std::string> words(shape.words.begin(), shape.words.end());
  add_wrong(node, path, (words.size() > 1 ? "one of " : "") + core::list_words(words, "or"),
            node.kind == NodeKind::scalar ? did_you_mean(node.text, words) : "", problems);
  return std::nullopt;
}

void read_scalar(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value,
                 Problems& problems) {
  const ScalarReader reader(node, path, problems);
  if (shape.form == Form::boolean) reader.boolean(*static_cast<bool*>(value));
  if (shape.form == Form::integer)
    reader.integer(expected_text(shape, limits), limits, *static_cast<std::int64_t*>(value));
  if (shape.form == Form::number) reader.number(expected_text(shape, limits), limits, *static_cast<double*>(value));
  if (shape.form == Form::text) reader.text(limits, *static_cast<std::string*>(value));
  if (shape.form == Form::word)
    if (const auto index = find_word(shape, node, path, problems)) shape.set(value, *index);
}

}  // namespace trainctl::config
