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

/// Returns what an object has under a key; null if `json` is no object, or has no such key.
template <class Json>
const Json* member(const Json& json, std::string_view key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(std::string(key));
  return found == json.end() ? nullptr : &*found;
}

}  // namespace

template <class Json>
Json parse_json(std::string_view text, std::string_view subject) {
  if (is_too_deep(text))
    throw Error(std::string(subject) + ": nested more than " + std::to_string(kMaxJsonDepth) + " levels deep");
  return parse<Json>(text, /*allow_exceptions=*/true);
}

template <class Json>
std::string text_member(const Json& json, std::string_view key) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_string() ? found->template get<std::string>() : "";
}

template <class Json>
std::optional<double> number_member(const Json& json, std::string_view key) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_number() ? std::optional(found->template get<double>()) : std::nullopt;
}

template <class Json>
Json object_member(const Json& json, std::string_view key) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_object() ? *found : Json::object();
}

template <class Json>
std::string indented_json(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
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
template std::string text_member(const nlohmann::json& json, std::string_view key);
template std::string text_member(const nlohmann::ordered_json& json, std::string_view key);
template std::optional<double> number_member(const nlohmann::json& json, std::string_view key);
template std::optional<double> number_member(const nlohmann::ordered_json& json, std::string_view key);
template nlohmann::json object_member(const nlohmann::json& json, std::string_view key);
template nlohmann::ordered_json object_member(const nlohmann::ordered_json& json, std::string_view key);
template std::string indented_json(const nlohmann::json& json);
template std::string indented_json(const nlohmann::ordered_json& json);

}  // namespace trainctl::core
