#include "config/renamed.h"

#include <catch2/catch.hpp>

#include "config/parse.h"

namespace trainctl::config::renamed_test {
namespace {

constexpr Renamed kList[] = {{"", "old", "fresh"},
                             {"fresh", "a", "b"},
                             {"model", "size", "hidden_size"},
                             {"model", "kind: big", "kind: large"},
                             {"model", "file", "names", "images"},
                             {"model", "wait", "watch.seconds"}};

std::vector<std::string> problems_of(const std::string& yaml, Node* after = nullptr) {
  Problems problems;
  std::optional<Node> root = parse(yaml, {OriginKind::file, "f.yaml", 1, 1}, problems);
  REQUIRE(root);
  refuse_renamed(*root, kList, "was renamed to", problems);
  std::vector<std::string> texts;
  for (const core::Problem& problem : problems.sorted()) texts.push_back(problem.text());
  if (after != nullptr) *after = *std::move(root);
  return texts;
}

TEST_CASE("an old name is refused at its place, with the new one, which takes its place", "[config]") {
  Node after;
  const auto texts = problems_of("model:\n  kind: big\n  parts: [{size: 3}]\nold: {a: 1}\n", &after);
  CHECK(texts == std::vector<std::string>{"f.yaml:2:9: model.kind: 'big' was renamed to 'large'",
                                          "f.yaml:3:12: model.parts[0].size: was renamed to 'hidden_size'",
                                          "f.yaml:4:1: old: was renamed to 'fresh'",
                                          "f.yaml:4:7: old.a: was renamed to 'b'"});
  CHECK(find_path(after, "model.parts[0].hidden_size")->text == "3");
  CHECK(find_path(after, "model.kind")->text == "large");
  CHECK(find_path(after, "fresh.b")->text == "1");
}

TEST_CASE("names of other sections, and other values, are left alone", "[config]") {
  CHECK(problems_of("dataset: {size: 3, kind: big}\nmodel: {kind: bigger, old: 1}\n").empty());
}

TEST_CASE("a name that means something else beside another key is left alone there", "[config]") {
  CHECK(problems_of("model: {file: a, parts: [{images: b, file: c}]}\n") ==
        std::vector<std::string>{"f.yaml:1:9: model.file: was renamed to 'names'"});
}

TEST_CASE("a key that moved is told its new path, and is checked no further", "[config]") {
  Node after;
  CHECK(problems_of("model: {wait: [1, 2], size.x: 3}\n", &after) ==
        std::vector<std::string>{"f.yaml:1:9: model.wait: was renamed to 'watch.seconds'"});
  CHECK(find_path(after, "model")->entries.size() == 1);
}

}  // namespace
}  // namespace trainctl::config::renamed_test
