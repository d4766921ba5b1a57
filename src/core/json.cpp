#include "core/json.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"

namespace trainctl::core {
namespace {

/// Returns the index of the quote that ends the string which begins at `begin`; the text's size if there is none.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t i = begin + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return i;
}

/// Counts brackets up to the text's end. What is not JSON may be counted wrongly, but only behind the place where
/// the parser stops.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        i = end_of_string(text, i);
        break;
      case '[':
      case '{':
        if (++depth > kMaxJsonDepth) return true;
        break;
      case ']':
      case '}':
        --depth;
        break;
      default:
        break;
    }
  }
  return false;
}

/// Parses a text. A zero byte, which nlohmann takes for the text's end, is no JSON.
template <class Json>
Json parse(std::string_view text, bool allow_exceptions) {
  if (text.find('\0') == std::string_view::npos) return Json::parse(text, /*cb=*/nullptr, allow_exceptions);
  std::string without_zeros(text);
  std::replace(without_zeros.begin(), without_zeros.end(), '\0', '\1');
  return Json::parse(without_zeros, /*cb=*/nullptr, allow_exceptions);
}

}  // namespace

template <class Json>
Json parse_json(std::string_view text, std::string_view subject) {
  if (is_too_deep(text))
    throw Error(std::string(subject) + ": nested more than " + std::to_string(kMaxJsonDepth) + " levels deep");
  return parse<Json>(text, /*allow_exceptions=*/true);
}

template <class Json>
Json parse_json_or_discard(std::string_view text) {
  if (is_too_deep(text)) return Json(Json::value_t::discarded);
  return parse<Json>(text, /*allow_exceptions=*/false);
}

template nlohmann::json parse_json<nlohmann::json>(std::string_view text, std::string_view subject);
template nlohmann::ordered_json parse_json<nlohmann::ordered_json>(std::string_view text, std::string_view subject);
template nlohmann::json parse_json_or_discard<nlohmann::json>(std::string_view text);
template nlohmann::ordered_json parse_json_or_discard<nlohmann::ordered_json>(std::string_view text);

}  // namespace trainctl::core
