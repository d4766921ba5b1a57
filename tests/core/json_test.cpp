#include "core/json.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"

namespace trainctl::core::json_test {

using nlohmann::ordered_json;

/// Returns so many lists, each within the one before.
std::string nested_lists(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

/// Returns so many objects, each within the one before.
std::string nested_objects(std::size_t depth) {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += R"({"a": )";
  return text + "1" + std::string(depth, '}');
}

std::string message_of(const std::string& text) {
  try {
    parse_json(text, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("JSON is read up to 512 levels", "[core]") {
  for (const std::size_t depth : {511, 512}) {
    CHECK(parse_json(nested_lists(depth), "config.json").is_array());
    CHECK(parse_json(nested_objects(depth), "config.json").is_object());
    CHECK(parse_json_or_discard<ordered_json>(nested_lists(depth)).is_array());
    CHECK(parse_json_or_discard<ordered_json>(nested_objects(depth)).is_object());
  }
}

TEST_CASE("JSON of more than 512 levels is refused", "[core][regression]") {
  for (const std::size_t depth : {513, 100'000}) {
    CHECK(message_of(nested_lists(depth)) == "config.json: nested more than 512 levels deep");
    CHECK(message_of(nested_objects(depth)) == "config.json: nested more than 512 levels deep");
    CHECK(parse_json_or_discard(nested_lists(depth)).is_discarded());
    CHECK(parse_json_or_discard<ordered_json>(nested_objects(depth)).is_discarded());
    CHECK_THROWS_AS(parse_json<ordered_json>(nested_objects(depth), "config.json"), Error);
  }
  CHECK(parse_json_or_discard(std::string(100'000, '[')).is_discarded());
  CHECK_THROWS_AS(parse_json(std::string(100'000, '['), "config.json"), Error);
  // Each level begins behind a string whose last character is a backslash.
  std::string text;
  for (int i = 0; i < 600; ++i) text += R"(["a\\", )";
  CHECK_THROWS_AS(parse_json(text + "1" + std::string(600, ']'), "config.json"), Error);
}

TEST_CASE("lists beside one another are not deep JSON", "[core]") {
  std::string text = "[[]";
  for (int i = 1; i < 2000; ++i) text += R"(, [{"a": []}])";
  CHECK(parse_json(text + "]", "config.json").size() == 2000);
}

TEST_CASE("brackets in JSON's strings are not counted", "[core]") {
  const std::string brackets(1000, '[');
  CHECK(parse_json("[\"" + brackets + "\"]", "config.json")[0] == brackets);
  CHECK(parse_json(R"({"say \")" + brackets + R"(": "\\"})", "config.json").contains("say \"" + brackets));
  CHECK(parse_json_or_discard<ordered_json>(R"(["\\\"{)" + brackets + "\", 1]").size() == 2);
}

TEST_CASE("text that is no JSON is an exception of nlohmann's or a discarded value", "[core]") {
  for (const char* text : {"", "[1, 2", "[1}", "]]", "\"no end", "\"\\", "{\"a\" 1}", "[1] 2", "nan", "1e999"}) {
    INFO(text);
    CHECK(parse_json_or_discard(text).is_discarded());
    CHECK(parse_json_or_discard<ordered_json>(text).is_discarded());
    CHECK_THROWS_AS(parse_json(text, "config.json"), nlohmann::json::exception);
    CHECK_THROWS_AS(parse_json<ordered_json>(text, "config.json"), nlohmann::json::exception);
  }
  CHECK_THROWS_WITH(parse_json("[1,\n2,,]", "config.json"), Catch::Contains("line 2, column 3"));
  try {
    parse_json("[1, x]", "config.json");
    FAIL("it is no JSON");
  } catch (const nlohmann::json::parse_error& error) {
    CHECK(error.byte == 5);
  }
}

TEST_CASE("JSON's values are those of nlohmann's parser", "[core]") {
  const std::string text = R"({"b": [1, -2.5, "ü\n", true, null], "a": {}})";
  CHECK(parse_json(text, "config.json") == nlohmann::json::parse(text));
  CHECK(parse_json<ordered_json>(text, "config.json").dump() == ordered_json::parse(text).dump());
  CHECK(parse_json_or_discard(text) == nlohmann::json::parse(text));
}

}  // namespace trainctl::core::json_test
