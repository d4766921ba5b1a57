#include "config/schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/problems.h"
#include "config/schema_repeats.h"

namespace trainctl::config {
namespace {

using Json = nlohmann::ordered_json;

/// The role of a file: `whole` stands alone; `part` is laid over a base, and requires nothing.
enum class Demand { whole, part };

Json number_json(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

Json value_json(const Shape& shape, const void* value) {
  switch (shape.form) {
    case Form::boolean:
      return *static_cast<const bool*>(value);
    case Form::integer:
      return *static_cast<const std::int64_t*>(value);
    case Form::number:
      return number_json(*static_cast<const double*>(value));
    case Form::text:
      return *static_cast<const std::string*>(value);
    case Form::word:
      return shape.words.at(shape.count(value));
    case Form::optional:
      return shape.count(value) == 0 ? Json(nullptr) : value_json(*shape.element, shape.get(value, 0));
    case Form::auto_or:
      return shape.count(value) == 0 ? Json("auto") : value_json(*shape.element, shape.get(value, 0));
    case Form::list: {
      Json list = Json::array();
      for (std::size_t i = 0; i < shape.count(value); ++i)
        list.push_back(value_json(*shape.element, shape.get(value, i)));
      return list;
    }
    case Form::structure:
    case Form::one_of:
      return nullptr;
  }
  return nullptr;
}

void add_range(const Limits& limits, Json& schema) {
  if (!std::isinf(limits.min)) schema[limits.exclusive_min ? "exclusiveMinimum" : "minimum"] = number_json(limits.min);
  if (!std::isinf(limits.max)) schema[limits.exclusive_max ? "exclusiveMaximum" : "maximum"] = number_json(limits.max);
}

/// Whether a mapping must have a key, other than `given`.
bool requires_keys(const Shape& structure, const Key* given = nullptr) {
  return std::ranges::any_of(structure.keys, [&](const Key& key) { return key.limits.required && &key != given; });
}

class SchemaWriter {
 public:
  SchemaWriter(Demand demand, Json& definitions) : demand_(demand), definitions_(definitions) {}

  /// Returns the schema of the root.
  Json root(const Shape& shape) { return structure(shape, ""); }

 private:
  Json of(const Shape& shape, const Limits& limits, const std::string& path) {
    switch (shape.form) {
      case Form::boolean:
        return {{"type", "boolean"}};
      case Form::integer:
        return ranged("integer", limits);
      case Form::number:
        return ranged("number", limits);
      case Form::text:
        return limits.min_items == 0 ? Json{{"type", "string"}}
                                     : Json{{"type", "string"}, {"minLength", limits.min_items}};
      case Form::word:
        return {{"enum", shape.words}};
      case Form::optional:
        return {{"anyOf", Json::array({of(*shape.element, limits, path), {{"type", "null"}}})}};
      case Form::auto_or:
        return {{"anyOf", Json::array({{{"const", "auto"}}, of(*shape.element, limits, path)})}};
      case Form::list:
        return list(shape, limits, path);
      case Form::structure:
      case Form::one_of:
        return reference(shape, limits, path);
    }
    return {};
  }

  /// Returns a reference to a mapping's definition. Each mapping is defined once, since the keys that kinds share would
  /// repeat it.
  Json reference(const Shape& shape, const Limits& limits, const std::string& path) {
    std::string& name = names_[{&shape, limits.required}];
    if (name.empty()) {
      name = (demand_ == Demand::whole ? "whole." : "part.") + path;
      while (definitions_.contains(name)) name += "_";
      const std::string key = name;
      definitions_[key] = nullptr;  // keeps the place, and the name
      Json schema = shape.form == Form::one_of ? kinds(shape, nullptr, limits.required, path) : structure(shape, path);
      definitions_[key] = std::move(schema);
      return {{"$ref", "#/$defs/" + key}};
    }
    return {{"$ref", "#/$defs/" + name}};
  }

  static Json ranged(const char* type, const Limits& limits) {
    Json schema = {{"type", type}};
    add_range(limits, schema);
    return schema;
  }

  Json list(const Shape& shape, const Limits& limits, const std::string& path) {
    Limits of_items = limits;
    of_items.min_items = 0;
    of_items.required = true;
    const Json item = of(*shape.element, of_items, path);
    Json schema = {{"type", "array"}, {"items", item}};
    if (limits.min_items > 0) schema["minItems"] = limits.min_items;
    const bool is_scalar = shape.element->form <= Form::word;
    return is_scalar ? Json{{"anyOf", Json::array({schema, item})}} : schema;
  }

  Json structure(const Shape& shape, const std::string& path) {
    if (shape.choice) return kinds(*shape.choice->shape, &shape, shape.choice->limits.required, path);
    Json schema = open_object();
    add_keys(shape, path, schema);
    close_object(schema);
    const Key* kind = shape.word_key().empty() ? nullptr : shape.find(shape.word_key());
    if (kind == nullptr || (demand_ == Demand::whole && requires_keys(shape, kind))) return schema;
    return {{"anyOf", Json::array({of(*kind->shape, kind->limits, path), std::move(schema)})}};
  }

  /// Returns every kind as an object, then the kinds as words. The keys that all kinds share are those of `owner`, if
  /// any.
  Json kinds(const Shape& one_of, const Shape* owner, bool required, const std::string& path) {
    const std::shared_ptr<void> value = one_of.make();
    const std::size_t default_index = one_of.count(value.get());
    Json alternatives = Json::array();
    Json words = Json::array();
    for (std::size_t i = 0; i < one_of.words.size(); ++i) {
      const Shape& alternative = *one_of.alternatives[i];
      Json schema = open_object();
      schema["title"] = one_of.words[i];
      schema["properties"]["kind"] = {{"const", one_of.words[i]}};
      const bool may_omit = demand_ == Demand::part || (i == default_index && !required);
      if (!may_omit) schema["required"].push_back("kind");
      add_keys(alternative, path, schema);
      if (owner != nullptr) add_keys(*owner, path, schema);
      close_object(schema);
      alternatives.push_back(std::move(schema));
      const bool needs_more = requires_keys(alternative) || (owner != nullptr && requires_keys(*owner));
      if (demand_ == Demand::part || !needs_more) words.push_back(one_of.words[i]);
    }
    if (!words.empty()) alternatives.push_back({{"enum", std::move(words)}});
    if (owner != nullptr && !owner->choice->limits.unless.empty() && demand_ == Demand::whole)
      alternatives.push_back(without_kind(*owner, path));
    return {{"anyOf", std::move(alternatives)}};
  }

  /// Returns the schema of a choice whose kind, and keys of that kind, follow from another key.
  Json without_kind(const Shape& owner, const std::string& path) {
    const std::string key(owner.choice->limits.unless);
    Json schema = open_object();
    schema["title"] = "kind from " + key;
    schema["not"] = {{"required", Json::array({"kind"})}};
    add_keys(owner, path, schema);
    Json& required = schema["required"];
    if (std::find(required.begin(), required.end(), key) == required.end()) required.push_back(key);
    return schema;
  }

  static Json open_object() {
    return {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  }

  static void close_object(Json& schema) {
    schema["additionalProperties"] = false;
    if (schema["required"].empty()) schema.erase("required");
  }

  void add_keys(const Shape& shape, const std::string& path, Json& schema) {
    const std::shared_ptr<void> example = shape.make();
    for (const Key& key : shape.keys) {
      Json property = of(*key.shape, key.limits, join_path(path, key.name));
      property["description"] = key.help;
      const bool is_section = key.shape->form == Form::structure || key.shape->form == Form::one_of;
      if (!key.limits.required && !is_section) property["default"] = value_json(*key.shape, key.in(example.get()));
      schema["properties"][std::string(key.name)] = std::move(property);
      if (key.limits.required && demand_ == Demand::whole) schema["required"].push_back(key.name);
    }
  }

  Demand demand_;
  Json& definitions_;
  std::map<std::pair<const Shape*, bool>, std::string> names_;
};

}  // namespace

std::string json_schema(const Shape& root, const std::string& title) {
  Json definitions = Json::object();
  Json whole = SchemaWriter(Demand::whole, definitions).root(root);
  Json part = SchemaWriter(Demand::part, definitions).root(root);
  part["properties"]["base"] = {{"type", "string"},
                                {"minLength", 1},
                                {"description", "Experiment file, relative to this one, that this one is laid over."}};
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}, {"type", "object"}};
  schema["if"] = {{"required", Json::array({"base"})}};
  schema["then"] = {{"$ref", "#/$defs/part"}};
  schema["else"] = {{"$ref", "#/$defs/whole"}};
  definitions["whole"] = std::move(whole);
  definitions["part"] = std::move(part);
  schema["$defs"] = std::move(definitions);
  share_repeated_properties(schema);
  return print_narrowly(schema);
}

}  // namespace trainctl::config
