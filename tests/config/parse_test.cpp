#include "config/parse.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/corpus.h"
#include "support/temporary_directory.h"

namespace trainctl::config::parse_test {

using namespace trainctl;
using namespace trainctl::config;
using namespace trainctl::config;

namespace {

const Origin kFile{OriginKind::file, "f.yaml", 1, 1};

std::string repeat(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

/// Returns the first problem; "" if there is none.
std::string refusal(const std::string& text) {
  Problems problems;
  parse(text, kFile, problems);
  return problems.empty() ? "" : problems.sorted()[0].text();
}

std::string file_refusal(const std::filesystem::path& path) {
  Problems problems;
  parse_file(path, problems);
  return problems.empty() ? "" : problems.sorted()[0].text();
}

/// Returns a node as tests/reference/corpora.py writes one.
nlohmann::json described(const Node& node) {
  switch (node.kind) {
    case NodeKind::null:
      return nullptr;
    case NodeKind::scalar:
      return (node.style == ScalarStyle::plain ? "plain " : "quoted ") + node.text;
    case NodeKind::sequence: {
      nlohmann::json items = nlohmann::json::array();
      for (const Node& item : node.items) items.push_back(described(item));
      return items;
    }
    case NodeKind::mapping: {
      nlohmann::json entries = nlohmann::json::array();
      for (const Node::Entry& entry : node.entries)
        entries.push_back(nlohmann::json::array({entry.key, described(entry.value)}));
      return {{"entries", entries}};
    }
  }
  return "no node";
}

}  // namespace

TEST_CASE("a tab in place of spaces is named", "[config][regression]") {
  for (const char* const text :
       {"train:\n\tsteps: 2\n", "train:\n  \tsteps: 2\n", "train:\n  steps: 2\n\tepochs: 2\n"}) {
    CAPTURE(text);
    CHECK(refusal(text).ends_with("; indent by spaces, not by a tab"));
  }
}

TEST_CASE("YAML files of a conformance corpus are what PyYAML reads, or are refused", "[config][reference]") {
  testing::compare_corpus("yaml", [](const std::string& text, const std::string& path) {
    Problems problems;
    const std::optional<Node> root = parse(text, {OriginKind::file, path, 1, 1}, problems);
    if (!problems.empty()) throw core::Error(problems.sorted()[0].text());
    return described(*root);
  });
}

TEST_CASE("every key and value knows its place", "[config]") {
  Problems problems;
  const auto root = parse("name: x  # comment\nmodel:\n  kind: cnn\n  channels: [16,\n    'a']\n", kFile, problems);
  REQUIRE(root);
  CHECK(problems.empty());
  const Node::Entry* model = root->find_entry("model");
  REQUIRE(model);
  CHECK(model->key_origin.text() == "f.yaml:2:1");
  CHECK(model->value.find("kind")->origin.text() == "f.yaml:3:9");
  const Node* last = find_path(*root, "model.channels[1]");
  REQUIRE(last);
  CHECK(last->origin.text() == "f.yaml:5:5");
  CHECK(last->style == ScalarStyle::quoted);
  CHECK(find_path(*root, "model.channels[2]") == nullptr);
  CHECK(find_path(*root, "model.nothing.more") == nullptr);
}

TEST_CASE("a question mark inside a word is part of the word", "[config]") {
  Problems problems;
  const auto root =
      parse("a: [part-0?.txt, why??, \"so?\", 'x ? y']\nb: {c: d?e, f?g: 1}\nh: what?\n", kFile, problems);
  REQUIRE(root);
  CHECK(problems.empty());
  const auto text = [&](const std::string& path) { return find_path(*root, path)->text; };
  CHECK(text("a[0]") == "part-0?.txt");
  CHECK(text("a[1]") == "why??");
  CHECK(text("a[2]") == "so?");
  CHECK(text("a[3]") == "x ? y");
  CHECK(text("b.c") == "d?e");
  CHECK(text("b.f?g") == "1");
  CHECK(text("h") == "what?");
}

TEST_CASE("text that yaml-cpp takes for YAML, and PyYAML does not, is refused at its place", "[config][regression]") {
  using Case = std::pair<const char*, const char*>;
  for (const auto& [text, place] : {Case{"name: x\ntop2\n", "f.yaml:2:1"},
                                    Case{"a:\n  b: 1\n  c\n", "f.yaml:3:3"},
                                    Case{"a: [ , b]\n", "f.yaml:1:6"},
                                    Case{"a: [b, , c]\n", "f.yaml:1:8"},
                                    Case{"a: [b, ,]\n", "f.yaml:1:8"},
                                    Case{"a: \"it\\'s\"\n", "f.yaml:1:4"},
                                    Case{"a: @x\n", "f.yaml:1:4"},
                                    Case{"a: `x`\n", "f.yaml:1:4"},
                                    Case{"a: %x\n", "f.yaml:1:4"},
                                    Case{"a: ># no\n  b\n", "f.yaml:1:4"},
                                    Case{"a: [\n\tb]\n", "f.yaml:2:2"},
                                    Case{"a: '\n\n  x'\n", "f.yaml:1:4"},
                                    Case{"a: &b.c x\n", "f.yaml:1:4"},
                                    Case{"a: &b x\nc: &b y\n", "f.yaml:2:4"},
                                    Case{"a:\n&b\n- c\n", "f.yaml:2:1"},
                                    Case{"%YAML 1.2\na: b\n", "f.yaml:1:1"},
                                    Case{"%TAG ! x\n---\na: b\n", "f.yaml:1:1"},
                                    Case{"# c\n%YAML 3\n---\na: b\n", "f.yaml:2:1"},
                                    Case{"a: b\xC2\x85 c\n", "f.yaml:1:5"},
                                    Case{"a: \"b\xE2\x80\xA8\"\n", "f.yaml:1:6"}}) {
    INFO(text);
    CHECK(refusal(text).starts_with(std::string(place) + ": "));
  }
  for (const char* text : {"? a\n: b\n", "{a, b: 1}\n", "[~, a]\n", "%YAML 1.2\n---\na: b\n", "a: '\n  x'\n",
                           "a:\n  &b\n  - c\n", "a: \"\\\\'\"\n"}) {
    INFO(text);
    CHECK(refusal(text) == "");
  }
}

TEST_CASE("a block of text ends as the file does", "[config][regression]") {
  const auto value = [](const std::string& text) {
    Problems problems;
    return parse(text, kFile, problems)->find("a")->text;
  };
  CHECK(value("a: |+\n  x\n") == "x\n");
  CHECK(value("a: |+\n  x\n\n") == "x\n\n");
  CHECK(value("a: |+\n\n") == "\n");
  CHECK(value("a: |\n  x\n") == "x\n");
  CHECK(value("a: |\n  x") == "x");
  CHECK(value("a: >\n  x") == "x");
  CHECK(value("a: |-\n  x\n\n") == "x");
}

TEST_CASE("an empty value stands at its key", "[config]") {
  Problems problems;
  const auto root = parse("a:\nb: 1\n", kFile, problems);
  REQUIRE(root);
  CHECK(root->find("a")->kind == NodeKind::null);
  CHECK(root->find("a")->origin.text() == "f.yaml:1:1");
}

TEST_CASE("columns count characters, not bytes", "[config]") {
  Problems problems;
  const auto root = parse("{é: 1, b: 2}\n", kFile, problems);
  REQUIRE(root);
  CHECK(root->find("b")->origin.text() == "f.yaml:1:11");
}

TEST_CASE("each duplicate key is reported at the second, naming the first", "[config]") {
  Problems problems;
  const auto root = parse("a: 1\nm: {x: 1, x: 2}\na: 2\na: 3\n", kFile, problems);
  REQUIRE(root);
  CHECK(root->find("a")->text == "1");
  const auto sorted = problems.sorted();
  REQUIRE(sorted.size() == 3);
  CHECK(sorted[0].text() == "f.yaml:2:11: m.x: duplicate key; the first is at line 2");
  CHECK(sorted[1].text() == "f.yaml:3:1: a: duplicate key; the first is at line 1");
  CHECK(sorted[2].text() == "f.yaml:4:1: a: duplicate key; the first is at line 1");
}

TEST_CASE("what isn't one plain document is refused by name", "[config]") {
  CHECK(refusal("a: 1\n---\nb: 2\n") ==
        "f.yaml:2:1: a second document starts here; an experiment is one document, without '---' in between");
  CHECK(refusal("---\na: 1\n...\n").empty());
  CHECK(refusal("a: &x {p: 1}\nb:\n  <<: *x\n") ==
        "f.yaml:3:3: merge keys ('<<') are not supported; 'base: other.yaml' overlays a whole file");
  CHECK(refusal("a: !!str 1\n").find("f.yaml:1:4: tags have no meaning here") == 0);
  CHECK(refusal("a: [b, \"rows.csv\\0.bin\"]\n").find("f.yaml:1:8: a text can't have a zero byte") == 0);
  CHECK(refusal("\"a\\x00\": b\n").find("f.yaml:1:1: a text can't have a zero byte") == 0);
  CHECK(refusal("? [a]\n: 1\n").find("f.yaml:1:3: a key must be a word") == 0);
  CHECK(refusal("{a: 1}: 2\n").find("a key must be a word") != std::string::npos);
  CHECK(refusal(": 1\n").find("expected a key before ':'") != std::string::npos);
  CHECK(refusal("a: &a [*a]\n") == "f.yaml:1:8: an alias inside what it stands for");
}

TEST_CASE("syntax errors keep their place", "[config]") {
  CHECK(refusal("a: 1\n  b: 2\n").find("f.yaml:2:4: not YAML: illegal map value; check the indentation") == 0);
  CHECK(refusal("a: [1, 2\nb: 3\n") ==
        "f.yaml:1:4: not YAML: the bracket that opens here, or a quote inside it, isn't closed by line 2");
  CHECK(refusal("a: {x: 'y, z: 1}\n").find("f.yaml:1:4: not YAML: the bracket that opens here, or a quote inside it") ==
        0);
  CHECK(refusal("a: 1\nb: \"x\nc: 3\n") == "f.yaml:2:1: not YAML: a quote that opens after this is never closed");
  CHECK(refusal("a: 1\nb: [x, y\n") ==
        "f.yaml:2:4: not YAML: the bracket that opens here, or a quote inside it, isn't closed by line 3");
  CHECK(refusal("a: *nothing\n").find("not YAML: the referenced anchor is not defined") != std::string::npos);
}

TEST_CASE("bytes that aren't UTF-8 text are refused with their offset", "[config]") {
  CHECK(refusal("a: 1\nb: caf\xe9\n") ==
        "f.yaml:2:7: not UTF-8: byte 0xe9 at byte offset 11; the file must be UTF-8 text");
  CHECK(refusal(std::string("a: \0b", 5)).find("f.yaml:1:4: control character 0x00 at byte offset 3") == 0);
  CHECK(refusal("a: \xed\xa0\x80\n").find("not UTF-8") != std::string::npos);      // a surrogate
  CHECK(refusal("a: \xc0\xaf\n").find("not UTF-8") != std::string::npos);          // not the shortest form
  CHECK(refusal("a: \xf5\x80\x80\x80\n").find("not UTF-8") != std::string::npos);  // beyond U+10FFFF
  CHECK(refusal("a: \xe2\x82").find("not UTF-8") != std::string::npos);            // cut off
  CHECK(refusal("a: \x04\nb: 1\n").find("control character 0x04") !=
        std::string::npos);  // yaml-cpp takes it for the end
  CHECK(refusal("\xef\xbb\xbfname: \xe2\x82\xac \xf0\x9f\x98\x80\n").empty());
}

TEST_CASE("deep nesting is refused within a second", "[config]") {
  const std::string deep = "nested over 64 levels deep";
  CHECK(refusal("a: " + repeat("[", 10'000) + repeat("]", 10'000)).find(deep) != std::string::npos);
  CHECK(refusal("a: " + repeat("{a: ", 10'000)).find(deep) != std::string::npos);
  CHECK(refusal(repeat("- ", 10'000)).find(deep) != std::string::npos);
  std::string block;
  for (std::size_t i = 0; i < 1'000; ++i) block += std::string(i, ' ') + "a:\n";
  CHECK(refusal(block).find(deep) != std::string::npos);
  CHECK(!refusal(repeat("[", 500'000)).empty());
  CHECK(!refusal(repeat("[{", 250'000)).empty());
  CHECK(!refusal(repeat("? ", 250'000)).empty());
  CHECK(refusal("a: " + repeat("[", 60) + repeat("]", 60)).empty());
}

TEST_CASE("alias bombs are refused within a second", "[config]") {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + repeat(before + ",", 9) + before + "]\n";
  }
  CHECK(refusal(bomb).find("over 100,000 keys and values, with aliases expanded") != std::string::npos);
  CHECK(refusal("a: &a '" + std::string(500'000, 'x') + "'\nb: [" + repeat("*a,", 50'000) + "]\n")
            .find("of text, with aliases expanded") != std::string::npos);
  CHECK(refusal("a: &a [1, 2]\nb: *a\nc: *a\n").empty());
}

TEST_CASE("large files are refused unread", "[config]") {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("large.yaml", "a: 1\n");
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40);  // a hole: more than memory, and nothing on the disk
  CHECK(file_refusal(file).find("has 1099511627776 bytes; at most 1048576 are read") != std::string::npos);
  std::string many;
  for (int i = 0; i < 90'000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  CHECK(refusal(many).find("over 100,000 keys and values") != std::string::npos);
  CHECK(refusal(repeat("k: 1\n", 90'000)).find("f.yaml:2:1: k: duplicate key") == 0);
}

TEST_CASE("files that hold no mapping are told so", "[config]") {
  const testing::TemporaryDirectory directory;
  for (const char* empty : {"", "\n\n", "# only a comment\n", "---\n"}) {
    CHECK(file_refusal(directory.write("shape.yaml", empty)).find("the file is empty") != std::string::npos);
  }
  CHECK(file_refusal(directory.write("shape.yaml", "- a\n")).find(":1:1: expected 'key: value' lines") !=
        std::string::npos);
  CHECK(file_refusal("/nonexistent/x.yaml").find("No such file") != std::string::npos);
  CHECK(file_refusal(std::filesystem::temp_directory_path()).find("is a directory") != std::string::npos);
}

}  // namespace trainctl::config::parse_test
