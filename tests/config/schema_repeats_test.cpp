#include "config/schema_repeats.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace trainctl::config::schema_repeats_test {

using namespace trainctl::config;
using Json = nlohmann::ordered_json;

namespace {

const std::string kHelp = "What is said of it, which is long enough to be worth a definition.";

Json mapping(const std::string& key, const std::string& help) {
  return {{"type", "object"}, {"properties", {{key, {{"type", "string"}, {"description", help}}}}}};
}

}  // namespace

TEST_CASE("a property that stands in several mappings is defined once", "[config]") {
  Json schema = {
      {"anyOf", Json::array({mapping("path", kHelp), mapping("path", kHelp), mapping("path", kHelp + " Or not.")})},
      {"$defs", Json::object()}};
  share_repeated_properties(schema);
  const Json reference = {{"$ref", "#/$defs/key.path"}};
  CHECK(schema["anyOf"][0]["properties"]["path"] == reference);
  CHECK(schema["anyOf"][1]["properties"]["path"] == reference);
  CHECK(schema["anyOf"][2] == mapping("path", kHelp + " Or not."));
  CHECK(schema["$defs"]["key.path"]["description"] == kHelp);
  CHECK(schema["$defs"].size() == 1);
}

TEST_CASE("properties of one name and two meanings have two definitions, short ones none", "[config]") {
  Json schema = {{"anyOf", Json::array({mapping("path", kHelp), mapping("path", kHelp), mapping("path", kHelp + "!"),
                                        mapping("path", kHelp + "!"), mapping("a", "b"), mapping("a", "b")})}};
  share_repeated_properties(schema);
  CHECK(schema["anyOf"][2]["properties"]["path"]["$ref"] == "#/$defs/key.path_");
  CHECK(schema["anyOf"][5] == mapping("a", "b"));
  CHECK(schema["$defs"].size() == 2);
}

TEST_CASE("a document is printed with what fits on a line, and reads as before", "[config]") {
  const Json document = {{"list", {1, "two, three: four", nullptr}},
                         {"empty", Json::object()},
                         {"long", {{"help", std::string(100, 'x')}, {"more", {{"a", true}}}}}};
  const std::string text = print_narrowly(document);
  CHECK(Json::parse(text) == document);
  CHECK(text == "{\n \"list\": [1, \"two, three: four\", null],\n \"empty\": {},\n \"long\": {\n  \"help\": \"" +
                    std::string(100, 'x') + "\",\n  \"more\": {\"a\": true}\n }\n}\n");
}

}  // namespace trainctl::config::schema_repeats_test
