#include "core/json.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "support/corpus.h"

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

/// Returns a value as tests/reference/corpora.py writes one.
nlohmann::json described(const ordered_json& value) {
  if (value.is_string()) return "s" + value.get<std::string>();
  if (value.is_number_integer()) return "i" + value.dump();
  if (value.is_number_float()) {
    char text[18];
    std::snprintf(text, sizeof text, "f%016llx",
                  static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value.get<double>())));
    return text;
  }
  if (value.is_array()) {
    nlohmann::json items = nlohmann::json::array();
    for (const ordered_json& item : value) items.push_back(described(item));
    return items;
  }
  if (value.is_object()) {
    nlohmann::json entries = nlohmann::json::array();
    for (const auto& [key, item] : value.items()) entries.push_back(nlohmann::json::array({key, described(item)}));
    return {{"entries", entries}};
  }
  return value;
}

TEST_CASE("JSON files of a conformance corpus are what Python reads, or are refused", "[core][reference]") {
  testing::compare_corpus("json", [](const std::string& text, const std::string& path) {
    return described(parse_json<ordered_json>(text, path));
  });
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

TEST_CASE("a zero byte does not end JSON", "[core][regression]") {
  using namespace std::string_literals;
  for (const std::string& text : {"1\0"s, "{\"a\": 1}\0"s, "[1]\0[2]"s, "[1\0]"s, "[\"a\0\"]"s, "\0{}"s}) {
    INFO(text);
    CHECK(parse_json_or_discard(text).is_discarded());
    CHECK_THROWS_AS(parse_json(text, "config.json"), nlohmann::json::parse_error);
  }
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

TEST_CASE("a member of another type than asked for is none", "[core]") {
  const ordered_json json = {{"text", "a"}, {"number", 2.5}, {"object", {{"b", 1}}}, {"null", nullptr}};
  CHECK(text_member(json, "text") == "a");
  CHECK(number_member(json, "number") == 2.5);
  CHECK(object_member(json, "object") == ordered_json{{"b", 1}});
  for (const char* key : {"null", "absent"}) {
    CHECK(text_member(json, key).empty());
    CHECK(object_member(json, key).empty());
  }
  CHECK(text_member(json, "number").empty());
  CHECK_FALSE(number_member(json, "text"));
  for (const ordered_json& other : {ordered_json(), ordered_json::array({1}), ordered_json("text")}) {
    CHECK(text_member(other, "text").empty());
    CHECK_FALSE(number_member(other, "text"));
    CHECK(object_member(other, "text").empty());
  }
}

TEST_CASE("JSON with bytes that are not UTF-8 is written", "[core]") {
  CHECK(indented_json(ordered_json{{"file", "a\xff.txt"}}) == "{\n  \"file\": \"a\xEF\xBF\xBD.txt\"\n}");
}

}  // namespace trainctl::core::json_test
