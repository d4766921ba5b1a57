#include "tracking/trackers/typed_json.h"

#include <cmath>

#include "core/json.h"

namespace trainctl::tracking {
namespace {

using nlohmann::ordered_json;

/// Returns the text within YAML's quotes.
std::string without_quotes(const std::string& text) {
  const bool is_quoted =
      text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  if (!is_quoted) return text;
  if (text.front() == '\'') return text.substr(1, text.size() - 2);
  const ordered_json json = core::parse_json_or_discard<ordered_json>(text);
  return json.is_string() ? json.get<std::string>() : text.substr(1, text.size() - 2);
}

void add_flat(const std::string& prefix, const ordered_json& object, ordered_json& flat) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) add_flat(prefix + key + "/", value, flat);
    if (value.is_number() || value.is_string() || value.is_boolean()) flat[prefix + key] = value;
  }
}

}  // namespace

ordered_json flat_values(const ordered_json& document) {
  ordered_json flat = ordered_json::object();
  if (document.is_object()) add_flat("", document, flat);
  return flat;
}

ordered_json typed_config(const std::map<std::string, std::string>& config) {
  ordered_json typed = ordered_json::object();
  for (const auto& [key, text] : config) {
    const ordered_json json = core::parse_json_or_discard<ordered_json>(text);
    typed[key] = json.is_number() || json.is_boolean() || json.is_null() ? json : ordered_json(without_quotes(text));
  }
  return typed;
}

std::string number_text(double value, const char* nan) {
  return std::isnan(value) ? nan : ordered_json(value).dump();
}

}  // namespace trainctl::tracking
