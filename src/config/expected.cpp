#include <cmath>

#include "config/read.h"
#include "core/text.h"

namespace trainctl::config {
namespace {

bool is_positive(const Limits& limits) {
  return limits.min == 0 && limits.exclusive_min && std::isinf(limits.max);
}

std::string ranged(std::string_view article, std::string_view noun, const Limits& limits) {
  if (is_positive(limits)) return "a positive " + std::string(noun);
  const std::string range = range_text(limits);
  return std::string(article) + std::string(noun) + (range.empty() ? "" : " " + range);
}

std::string plural(const Shape& shape, const Limits& limits) {
  const auto nouns = [&](std::string_view noun) {
    if (is_positive(limits)) return "positive " + std::string(noun);
    return ranged("", noun, limits);
  };
  if (shape.form == Form::integer) return nouns("integers");
  if (shape.form == Form::number) return nouns("numbers");
  if (shape.form == Form::text) return "strings";
  if (shape.form == Form::word)
    return "the words " + core::list_words(std::vector<std::string>(shape.words.begin(), shape.words.end()), "or");
  return "mappings with a kind";
}

}  // namespace

std::string range_text(const Limits& limits) {
  const bool has_min = !std::isinf(limits.min);
  const bool has_max = !std::isinf(limits.max);
  if (has_min && has_max && !limits.exclusive_min && !limits.exclusive_max)
    return "from " + core::format_number(limits.min) + " to " + core::format_number(limits.max);
  std::string text;
  if (has_min) text = (limits.exclusive_min ? "above " : "of at least ") + core::format_number(limits.min);
  if (has_min && has_max) text += " and ";
  if (has_max) text += (limits.exclusive_max ? "below " : "of at most ") + core::format_number(limits.max);
  return text;
}

std::string expected_text(const Shape& shape, const Limits& limits) {
  switch (shape.form) {
    case Form::boolean:
      return "true or false";
    case Form::integer:
      return ranged("an ", "integer", limits);
    case Form::number:
      return ranged("a ", "number", limits);
    case Form::text:
      return "a string";
    case Form::word: {
      const std::vector<std::string> words(shape.words.begin(), shape.words.end());
      return (words.size() > 1 ? "one of " : "") + core::list_words(words, "or");
    }
    case Form::list:
      return "a list of " + plural(*shape.element, limits);
    case Form::optional:
      return expected_text(*shape.element, limits) + " or null";
    case Form::auto_or:
      return "auto or " + expected_text(*shape.element, limits);
    case Form::structure:
    case Form::one_of:
      return "a mapping of keys";
  }
  return "";
}

}  // namespace trainctl::config
