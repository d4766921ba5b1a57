#include "config/schema_repeats.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainctl::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShortest = 60;  // of what a reference is shorter than, with its definition
constexpr std::size_t kColumns = 120;

/// Calls `use(name, property)` for the properties of every mapping. A property's own properties stand behind a
/// reference.
template <class Use>
void for_each_property(Json& node, const Use& use) {
  if (node.is_object() && node.contains("properties"))
    for (auto& [name, property] : node["properties"].items()) use(name, property);
  if (node.is_structured())
    for (Json& child : node) for_each_property(child, use);
}

using Property = std::pair<std::string, std::string>;  // name and content

void print(const Json& node, std::size_t indent, std::size_t column, std::string& text) {
  const std::string line = node.dump();
  const auto separators =
      static_cast<std::size_t>(std::count(line.begin(), line.end(), ',') + std::count(line.begin(), line.end(), ':'));
  if (!node.is_structured() || node.empty()) {
    text += line;
    return;
  }
  // A line has a blank after each separator, save for those inside of texts.
  const bool fits = column + line.size() + separators + 1 <= kColumns;
  const std::string next = fits ? "" : "\n" + std::string(indent + 1, ' ');
  text += node.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& [key, value] : node.items()) {
    if (!first) text += fits ? ", " : ",";
    first = false;
    text += next;
    const std::string name = node.is_object() ? Json(key).dump() + ": " : "";
    text += name;
    print(value, indent + 1, fits ? 0 : indent + 1 + name.size(), text);
  }
  if (!fits) text += "\n" + std::string(indent, ' ');
  text += node.is_object() ? '}' : ']';
}

}  // namespace

void share_repeated_properties(Json& schema) {
  std::map<Property, int> counts;
  for_each_property(schema, [&](const std::string& name, const Json& property) { ++counts[{name, property.dump()}]; });
  std::map<Property, std::string> names;
  Json shared = Json::object();
  for_each_property(schema, [&](const std::string& name, Json& property) {
    const Property key{name, property.dump()};
    if (counts[key] < 2 || key.second.size() < kShortest) return;
    std::string& defined = names[key];
    if (defined.empty()) {
      defined = "key." + name;
      while (shared.contains(defined)) defined += "_";
      shared[defined] = property;
    }
    property = {{"$ref", "#/$defs/" + defined}};
  });
  for (auto& [name, property] : shared.items()) schema["$defs"][name] = std::move(property);
}

std::string print_narrowly(const Json& document) {
  std::string text;
  print(document, 0, 0, text);
  return text + "\n";
}

}  // namespace trainctl::config
