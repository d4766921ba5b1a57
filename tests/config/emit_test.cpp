#include "config/emit.h"

#include <catch2/catch.hpp>
#include <limits>

#include "config/flatten.h"
#include "config/parse.h"
#include "config/read.h"
#include "config/write.h"
#include "sample.h"

namespace trainctl::config::emit_test {

using namespace trainctl;
using namespace trainctl::config;
using namespace trainctl::config;

namespace {

Node parsed(const std::string& text) {
  Problems problems;
  auto node = parse(text, {OriginKind::file, "f.yaml", 1, 1}, problems);
  INFO(text);
  REQUIRE(node);
  REQUIRE(problems.empty());
  return *node;
}

}  // namespace

TEST_CASE("what is written reads back the same", "[config]") {
  sample::Root value;
  value.name = "x";
  value.eval = sample::Files{"a b", "#c"};
  value.optimizer.lr = 0.1 + 0.2;
  value.optimizer.clip = 1e-300;
  value.optimizer.rule = sample::Sgd{.momentum = 1.0 / 3, .stride = 5};
  value.steps = {sample::Adam{}, sample::Sgd{}};
  value.channels = {std::numeric_limits<std::int64_t>::max(), 1};
  const Node node = write(value);
  Problems problems;
  const auto again = read<sample::Root>(parsed(emit(node)), problems);
  CHECK(problems.empty());
  CHECK(flatten(write(again)) == flatten(node));
  CHECK(again.optimizer.lr == value.optimizer.lr);
  CHECK(again.eval->labels == "#c");
}

TEST_CASE("any text survives", "[config]") {
  for (const std::string text :
       {"",           " ",      "true",     "null",   "~",        "1",      "1e3",    "0x1f",       ".5",
        "-",          "- a",    "a: b",     "a #b",   "#",        "'",      "\"",     "\\",         "a\nb",
        "\t",         "\r\n",   "[",        "]",      "{",        "}",      ",",      "a, b",       "&a",
        "*a",         "!t",     "%d",       "@",      "`",        "|",      ">",      "?",          "---",
        "...",        "é",      "日本",     "😀",      "yes",      "No",     "auto",   "2024-01-01", "a\u0085b",
        "\u009f",     "\u00a0", "a\u2028b", "\u2029", "\ufffe",   "\uffff", "\ufffd", "1:30",       "a/b.c",
        "/usr/share", "..",     "=",        "<<",     "\x01\x7f", " lead",  "trail ", "a\\nb"}) {
    Node root = Node::mapping();
    root.add("key", {}, Node::scalar(text, ScalarStyle::quoted));
    Node list = Node::sequence();
    list.items = {Node::scalar(text, ScalarStyle::quoted), Node::scalar("1")};
    root.add("list", {}, list);
    const Node again = parsed(emit(root));
    CHECK(again.find("key")->kind == NodeKind::scalar);
    CHECK(again.find("key")->text == text);
    REQUIRE(again.find("list")->items.size() == 2);
    CHECK(again.find("list")->items[0].text == text);
  }
}

TEST_CASE("nested lists and empty collections survive", "[config]") {
  const std::string text =
      "a:\n  - [1, 2]\n  -\n    - [3]\n    - {x: 1, y: []}\n  - {}\nb: {}\nc: [{k: [{z: null}]}]\n";
  const Node node = parsed(text);
  CHECK(flatten(parsed(emit(node))) == flatten(node));
}

TEST_CASE("origins stand beside their values", "[config]") {
  Node written = parsed("name: x\noptimizer:\n  lr: 2\n");
  sample::Root value;
  value.name = "x";
  value.optimizer.lr = 2;
  Node node = write(value);
  adopt_origins(node, written);
  const std::string text = emit(node, Comments::origins);
  CHECK(text.find("name: x  # f.yaml:1\n") != std::string::npos);
  CHECK(text.find("  lr: 2  # f.yaml:3\n") != std::string::npos);
  CHECK(text.find("seed: 0  # default\n") != std::string::npos);
  CHECK(flatten(parsed(text)) == flatten(node));
}

TEST_CASE("trees are compared key by key", "[config]") {
  const auto was = flatten(parsed("a: 1\nb: {c: [1, 2], d: x}\n"));
  const auto now = flatten(parsed("a: 1\nb: {c: [1, 3], e: null}\n"));
  const auto differences = diff(was, now);
  REQUIRE(differences.size() == 3);
  CHECK((differences[0].path == "b.c" && differences[0].was == "[1, 2]" && differences[0].now == "[1, 3]"));
  CHECK((differences[1].path == "b.d" && differences[1].now.empty()));
  CHECK((differences[2].path == "b.e" && differences[2].now == "null"));
  CHECK(diff(was, was).empty());
}

}  // namespace trainctl::config::emit_test
