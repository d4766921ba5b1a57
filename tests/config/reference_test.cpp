#include "config/reference.h"

#include <catch2/catch.hpp>

#include "sample.h"

namespace trainctl::config::reference_test {

using namespace trainctl::config;
using Catch::Matchers::Contains;

namespace {

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

struct Small {
  static constexpr std::string_view kind = "small";
  int64_t size = 1;
  static constexpr auto fields() { return Fields{field<&Small::size>("Size.")}; }
};

struct Large {
  static constexpr std::string_view kind = "large";
  int64_t size = 1;
  static constexpr auto fields() { return Fields{field<&Large::size>("Size.")}; }
};

struct Plain {
  static constexpr std::string_view kind = "plain";
  static constexpr auto fields() { return Fields{}; }
};

struct Everything {
  sample::Files train;
  sample::Files eval;
  OneOf<Plain, Small, Large> network;
  static constexpr auto fields() {
    return Fields{field<&Everything::train>("To train on."), field<&Everything::eval>("To evaluate on."),
                  field<&Everything::network>("Network.")};
  }
};

}  // namespace

TEST_CASE("the reference writes each mapping and each kind's keys once", "[config]") {
  const std::string text = markdown_reference(shape_of<Everything>(), "A file", {});
  CHECK(count(text, "| `images` |") == 1);
  CHECK(count(text, "| `size` |") == 1);
  CHECK_THAT(text, Contains("| `train` | [mapping](#train) |"));
  CHECK_THAT(text, Contains("| `eval` | [mapping](#train) |"));
  CHECK_THAT(text, Contains("`plain` has no keys of its own."));
  CHECK_THAT(text, Contains("### `network: {kind: small}`, `large`\n"));
}

TEST_CASE("a list of kinds links each kind to its keys, or to the mapping if it has none", "[config]") {
  CHECK(markdown_kinds(shape_of<Everything>(), "page.md") ==
        "## `network`\n\nNetwork.\n\n[`plain`](page.md#network), [`small`](page.md#network-kind-small-large), "
        "[`large`](page.md#network-kind-small-large)\n\n");
}

TEST_CASE("kinds that an earlier list has are not listed again", "[config]") {
  const std::string text = markdown_kinds(shape_of<sample::Root>(), "page.md");
  CHECK(count(text, "## ") == 1);
  CHECK_THAT(text, Contains("## `optimizer`\n"));
}

TEST_CASE("the reference begins with an index of its sections and kinds, and shows the examples", "[config]") {
  const std::string text =
      markdown_reference(shape_of<Everything>(), "A file", {{"", "train: {}\n"}, {"network", "network: large\n"}});
  CHECK_THAT(
      text,
      Contains(
          "- [`train`](#train)\n- [`network`](#network): [`plain`](#network), [`small`](#network-kind-small-large), "
          "[`large`](#network-kind-small-large)\n"));
  CHECK_THAT(text, Contains("```yaml\ntrain: {}\n```\n"));
  CHECK_THAT(text, Contains("```yaml\nbase: base.yaml\nnetwork: large\n```\n"));
}

}  // namespace trainctl::config::reference_test
