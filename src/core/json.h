// JSON from files, sockets and users. Its depth is limited, since nlohmann's values are copied and written by
// recursion, which overflows the stack for a text of a few thousand brackets.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::core {

/// The most arrays and objects within one another.
inline constexpr int kMaxJsonDepth = 512;

/// Returns the text's value, as nlohmann::json or nlohmann::ordered_json. Throws core::Error, which begins with the
/// subject, if the text is nested more than kMaxJsonDepth levels deep; nlohmann::json::exception if the text is no
/// JSON.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view subject);

/// Returns the text's value; a discarded one if the text is no JSON or nested too deep.
template <class Json = nlohmann::json>
Json parse_json_or_discard(std::string_view text);

/// Returns the text under a key of an object; "" if `json` is no object, or has none or another value there.
template <class Json>
std::string text_member(const Json& json, std::string_view key);
/// Returns the number under a key likewise; none if there is none.
template <class Json>
std::optional<double> number_member(const Json& json, std::string_view key);
/// Returns the object under a key likewise; an empty one if there is none.
template <class Json>
Json object_member(const Json& json, std::string_view key);

/// Returns the JSON as a text, indented by two. Bytes that are not UTF-8, as in names of files, are replaced.
template <class Json>
std::string indented_json(const Json& json);

}  // namespace trainctl::core
