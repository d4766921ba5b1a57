#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "chat_template/chat_template.h"
#include "core/error.h"

namespace trainctl::chat_template {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const std::string& source, const Json& variables = Json::object()) {
  return ChatTemplate(source, "chat.jinja").render(variables).text;
}

/// The message of the error that reading or rendering ends with.
std::string error_of(const std::string& source, const Json& variables = Json::object(),
                     const RenderOptions& options = {}) {
  try {
    ChatTemplate(source, "chat.jinja").render(variables, options);
  } catch (const core::Error& error) {
    return error.text();
  }
  return "";
}

TEST_CASE("a template prints messages", "[chat_template]") {
  const Json variables = {{"messages", {{{"role", "user"}, {"content", " hi "}}}}};
  CHECK(text_of("{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim }}\n{% endfor %}", variables) ==
        "<user>hi\n");
}

TEST_CASE("numbers are rounded, formatted and words counted as by Python and Jinja 3.1",
          "[chat_template][regression]") {
  for (const auto& [source, expected] : std::vector<std::pair<std::string, std::string>>{
           {"{{ 2.675|round(2) }} {{ 1.115|round(2) }} {{ 0.35|round(1) }} {{ 4.35|round(1) }}", "2.67 1.11 0.3 4.3"},
           {"{{ 15|round(-1) }} {{ 25|round(-1) }} {{ (-15)|round(-1) }} {{ 1234.5|round(-2) }}", "20 20 -20 1200.0"},
           {"{{ 2.5|round }} {{ 3.5|round }}", "2.0 4.0"},
           {"{{ \"Don't stop: x-y z\"|wordcount }} {{ 'a_b é1 — c'|wordcount }}", "6 3"},
           {"{{ '%.3d'%7 }} {{ '%x'%(-1) }} {{ '%#x|%o|%X'%(255,8,255) }} {{ '%#o'%8 }}", "007 -1 0xff|10|FF 0o10"},
           {"{{ '%05d|%-5d|%+d|% d'%(7,7,7,7) }} {{ '%05.3d'%7 }} {{ '%6.3d|'%(-7) }}",
            "00007|7    |+7| 7 00007   -007|"},
           {"{{ '%08.2f|%-8.2f|'%(3.14159,2.5) }}", "00003.14|2.50    |"}}) {
    INFO(source);
    CHECK(text_of(source) == expected);
  }
}

TEST_CASE("texts become numbers, and numbers compare and divide, as in Python", "[chat_template][regression]") {
  for (const auto& [source, expected] : std::vector<std::pair<std::string, std::string>>{
           {"{{ ' 12 '|int }} {{ '1_000'|int }} {{ '1__0'|int }} {{ '_1'|int(7) }} {{ '1e3'|int }} {{ '٣٤'|int }}",
            "12 1000 0 7 1000 34"},
           {"{{ '0x1F'|int }} {{ '0x1F'|int(base=16) }} {{ '1F'|int(base=16) }} {{ '0b_1'|int(base=0) }}", "0 31 31 1"},
           {"{{ '012'|int(base=0) }} {{ '-0o17'|int(0, 8) }} {{ '7'|int(base=99) }}", "12 -15 7"},
           {"{{ '+-5'|int }} {{ '--5'|int }} {{ '+5'|int }} {{ 'inf'|int(3) }} {{ 'nan'|int(3) }}", "0 0 5 3 3"},
           {"{{ '1_0.5'|float }} {{ '1_e5'|float }} {{ '+-5'|float }} {{ '-INF'|float }} {{ 'nan(1)'|float }}",
            "10.5 0.0 0.0 -inf 0.0"},
           {"{{ '1e400'|float }} {{ '1e-400'|float }} {{ '٣'|float }} {{ '0x1F'|float }}", "inf 0.0 3.0 0.0"},
           {"{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }}", "False True"},
           {"{{ 9007199254740992.0 <= 9007199254740993 }} {{ 9007199254740993 in [9007199254740992.0] }}",
            "True False"},
           {"{{ 3 == 3.0 }} {{ 4 < 3.5 }} {{ -3 > -3.5 }} {{ 1 >= 'nan'|float }} {{ 1 != 'nan'|float }}",
            "True False True False True"},
           {"{{ 9223372036854775807 < 9223372036854775808.0 }}", "True"},
           {"{{ 1.0 // 0.1 }} {{ -7.5 // 2 }} {{ 7.5 % -2 }} {{ 0.0 // -3 }} {{ -5.0 // 'inf'|float }}",
            "9.0 -4.0 -0.5 -0.0 -1.0"}}) {
    INFO(source);
    CHECK(text_of(source) == expected);
  }
  for (const char* refused : {"{{ '99999999999999999999'|int }}", "{{ 1e30|int }}", "{{ ('inf'|float)|int }}",
                              "{{ 0 ** -1 }}", "{{ (-8.0) ** 0.5 }}", "{{ 10.0 ** 400 }}"}) {
    INFO(refused);
    CHECK_FALSE(error_of(refused).empty());
  }
}

TEST_CASE("views of dicts and ranges are no lists, as in Python", "[chat_template][regression]") {
  const Json variables = {{"d", {{"k", "v"}}}};
  CHECK(text_of("{{ d.keys() }} {{ d.values() }} {{ d.items() }}", variables) ==
        "dict_keys(['k']) dict_values(['v']) dict_items([('k', 'v')])");
  CHECK(text_of("{{ d.keys() == ['k'] }} {{ range(2) == [0, 1] }} {{ range(2) == range(0, 2) }}", variables) ==
        "False False True");
  CHECK(text_of("[{{ d.keys()[0] }}] {{ d.keys() is sequence }} {{ d.keys() is iterable }} {{ range(2) is sequence }}",
                variables) == "[] False True True");
  CHECK(text_of("{{ d.items()|list }} {{ range(5)[1:]|list }} {{ range(3)[1] }} {{ range(3)|sum }}", variables) ==
        "[('k', 'v')] [1, 2, 3, 4] 1 3");
  for (const std::string source : {"{{ range(2) }}", "{{ range(2)|tojson }}", "{{ d.items()|tojson }}",
                                   "{{ range(2) + [1] }}", "{{ range(2) * 2 }}", "{{ d.keys() == d.keys() }}"}) {
    INFO(source);
    CHECK(error_of(source, variables).starts_with("chat.jinja:1:"));
  }
}

TEST_CASE("a text gets the width that is asked for, or is refused", "[chat_template][regression]") {
  CHECK(
      text_of(
          "{{ 'a'|indent(20000, true)|length }} {{ 'a'|center(20000)|length }} {{ [1]|tojson(indent=2000)|length }}") ==
      "20001 20000 2005");
  CHECK(text_of("{{ 'a'.ljust(200000)|length }} {{ 'a'.rjust(200000)|length }} {{ 'a'.zfill(200000)|length }}") ==
        "200000 200000 200000");
  for (const std::string source :
       {"{{ 'a'|center(10 ** 18) }}", "{{ 'a'.zfill(10 ** 18) }}", "{{ 'a'.ljust(5, 'xy') }}"}) {
    INFO(source);
    CHECK(error_of(source).starts_with("chat.jinja:1:"));
  }
}

TEST_CASE("numbers are rounded to any place, or refused", "[chat_template][regression]") {
  CHECK(text_of("{{ true|round }} {{ 2.5|round(-400) }} {{ -2.5|round(-400) }} {{ (-1) ** 9223372036854775807 }}") ==
        "1 0.0 -0.0 -1");
  for (const std::string source : {"{{ 9223372036854775807|round(-1) }}", "{{ 9223372036854775807|round(-19) }}",
                                   "{{ 2.5|round(400, 'ceil') }}", "{{ 2.5|round(none) }}"}) {
    INFO(source);
    CHECK(error_of(source).starts_with("chat.jinja:1:"));
  }
}

TEST_CASE("arguments that Python refuses are refused", "[chat_template][regression]") {
  CHECK(text_of("{{ 'abc'.startswith('', 9) }} {{ 'abc'.endswith(('x', 'c')) }}") == "False True");
  for (const std::string source :
       {"{{ 'a'|title(1) }}", "{{ 'a'|length(none) }}", "{{ [1]|last(2) }}", "{{ 'a'.upper(1) }}", "{{ {}.items(1) }}",
        "{{ 'a'|replace('a', 'b', old='c') }}", "{{ 'a'.startswith(['a']) }}", "{{ 'a}b'.format() }}",
        "{{ ['a']|sum(start='') }}", "{{ missing|dictsort }}", "{{ namespace(5) }}", "{{ '%s'|format(1, a=2) }}",
        "{{ [1]|tojson(separators=[',']) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}"}) {
    INFO(source);
    CHECK(error_of(source).starts_with("chat.jinja:1:"));
  }
}

TEST_CASE("filters find members by name, as subscripts do", "[chat_template][regression]") {
  CHECK(text_of("{{ [namespace(a=1)]|map(attribute='a')|join }} {{ [{}]|selectattr('items')|list }}") == "1 [{}]");
}

TEST_CASE("a step of any size ends a slice or a range", "[chat_template]") {
  CHECK(text_of("{{ 'abcdef'[1::9223372036854775807] }}") == "b");
  CHECK(text_of("{{ 'abcdef'[4::-9223372036854775807] }}") == "e");
  CHECK(text_of("{{ range(1, 9, 9223372036854775807) | list }}") == "[1]");
}

TEST_CASE("spans of generation blocks are bytes of the text", "[chat_template]") {
  const ChatTemplate chat("é{% generation %}ä{{ x }}{% endgeneration %}.\n{% generation %}{% endgeneration %}", "c");
  CHECK(chat.has_generation());
  const Rendered rendered = chat.render({{"x", "yz"}});
  CHECK(rendered.text == "éäyz.\n");
  REQUIRE(rendered.generated.size() == 2);
  CHECK(rendered.generated[0] == TextSpan{.begin = 2, .end = 6, .line = 1});
  CHECK(rendered.line_of(0) == 1);
  CHECK(rendered.line_of(6) == 1);
  CHECK(rendered.line_of(8) == 0);
  CHECK(rendered.generated[1] == TextSpan{.begin = 8, .end = 8, .line = 2});
}

TEST_CASE("a mistake of a template is told with its line and column", "[chat_template]") {
  CHECK(error_of("a\n  {{ x.y }}") == "chat.jinja:2:7: 'x' is undefined");
  CHECK(error_of("a\n{% if x %}") == "chat.jinja:2:11: the template ends inside a block; expected {% endif %}");
  CHECK(error_of("{{ 1 +\n }}") == "chat.jinja:2:2: expected an expression, got '}}'");
  CHECK(error_of("{{ raise_exception('roles must alternate') }}") ==
        "chat.jinja:1:19: the template refuses the messages: roles must alternate");
  CHECK(error_of("\n{{ 'a' + 1 }}") == "chat.jinja:2:8: unsupported operand types for +: 'str' and 'int'");
}

TEST_CASE("a number of more than 64 bits is refused, since its digits are lost", "[chat_template][regression]") {
  const auto variables = [](const std::string& number) { return Json::parse("{\"n\": " + number + "}"); };
  CHECK(text_of("{{ n }}", variables("9223372036854775807")) == "9223372036854775807");
  CHECK(text_of("{{ n }}", variables("1e18")) == "1e+18");
  for (const std::string number : {"9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e+23"}) {
    INFO(number);
    CHECK(error_of("{{ n }}", variables(number)) != "");
  }
}

TEST_CASE("what a template uses and is not supported is named", "[chat_template]") {
  CHECK(error_of("{% include 'x' %}").find("chat.jinja:1:4: the statement 'include' is not supported") == 0);
  CHECK(error_of("{{ 'a'|uper }}") == "chat.jinja:1:8: the filter 'uper' is not supported; the nearest one is 'upper'");
  CHECK(error_of("{% for x in [1] recursive %}{% endfor %}") == "chat.jinja:1:17: recursive loops are not supported");
}

TEST_CASE("a place of more than 64 bits is one that nothing has", "[chat_template][regression]") {
  CHECK(text_of("{{ [[1]]|map(attribute='99999999999999999999')|join }}").empty());
  CHECK_THAT(error_of("{{ '{99999999999999999999}'.format(1) }}"),
             Catch::Contains("the field {99999999999999999999} of str.format has no argument"));
}

TEST_CASE("a template that goes on without end is stopped", "[chat_template]") {
  const std::string loops = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
  CHECK(error_of(loops) == "chat.jinja: the template takes more than 3 s; does it loop without end?");
  CHECK(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("does 'f' call itself without end?") !=
        std::string::npos);
  CHECK(error_of("{% for a in range(90000) %}{{ 'x' * 9000 }}{% endfor %}").find("takes more than 64 MiB") !=
        std::string::npos);
  const std::string nests =
      "{% set ns = namespace(x=[]) %}{% for a in range(90000) %}{% set ns.x = ns.x + [range(90000)|list] "
      "%}{% endfor %}";
  CHECK(error_of(nests) == "chat.jinja: the template takes more than 512 MiB of memory");
  const std::string doubles =
      "{% set ns = namespace(x='x') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
  CHECK(error_of(doubles).find("takes more than") != std::string::npos);
  CHECK(error_of("{{ 'x' * 9000000000 }}").find("takes more than 64 MiB") != std::string::npos);
  CHECK(error_of("{{ [0] * 9000000000 }}").find("takes more than 64 MiB") != std::string::npos);
  CHECK(error_of(std::string(5000, '(')).find("nested more than 200 deep") == std::string::npos);
  CHECK(error_of("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}")
            .find("nested more than 200 deep") != std::string::npos);
  std::string blocks;
  for (int i = 0; i < 500; ++i) blocks += "{% if x %}";
  CHECK(error_of(blocks).find("nested more than 100 deep") != std::string::npos);
}

TEST_CASE("a template that asks for today's date is an error without one", "[chat_template]") {
  CHECK(error_of("{{ strftime_now('%Y') }}").find("asks for today's date") != std::string::npos);
  std::tm day{};
  day.tm_year = 126;
  CHECK(ChatTemplate("{{ strftime_now('%Y') }}", "c").render(Json::object(), {.now = day}).text == "2026");
}

TEST_CASE("characters are counted, not bytes", "[chat_template]") {
  CHECK(text_of("{{ x|upper }}{{ x[0] }}{{ x|length }}", {{"x", "\xC3\xA4"}}) == "Ää1");
}

TEST_CASE("nothing in a template goes deeper than the stack", "[chat_template][regression]") {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  constexpr int kMany = 100'000;
  for (const std::string& source : {"{{ a" + repeated("+a", kMany) + " }}", "{{ a" + repeated(" or a", kMany) + " }}",
                                    "{{ a" + repeated("|f", kMany) + " }}", "{{ a" + repeated(".b", kMany) + " }}",
                                    "{{ a" + repeated("[0]", kMany) + " }}", "{{ a" + repeated("()", kMany) + " }}"})
    CHECK_THAT(error_of(source), Catch::Contains("more than 5000 operators and filters"));
  CHECK_THAT(error_of("{% set " + repeated("(", kMany) + "a" + repeated(")", kMany) + " = 1 %}"),
             Catch::Contains("names are nested more than 100 deep"));
  CHECK_THAT(
      error_of("{% set ns=namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x=[ns.x] %}{% endfor %}{{ ns.x }}"),
      Catch::Contains("lists are nested more than 1000 deep"));
  CHECK(text_of("{{ 0" + repeated("+1", 900) + " }}") == "900");
}

}  // namespace
}  // namespace trainctl::chat_template
