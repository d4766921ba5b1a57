#include "core/name_pattern.h"

#include <catch2/catch.hpp>

namespace trainctl::core {
namespace {

TEST_CASE("a pattern fits a name, or its end behind a dot", "[core]") {
  CHECK(matches_name("fc", "fc"));
  CHECK(matches_name("fc", "block.1.fc"));
  CHECK(matches_name("1.fc", "block.1.fc"));
  CHECK_FALSE(matches_name("fc", "block.afc"));
  CHECK_FALSE(matches_name("block", "block.1.fc"));
  CHECK_FALSE(matches_name("", "fc"));
  CHECK(matches_name("", "fc."));
}

TEST_CASE("a star crosses dots, slashes and leading dots", "[core]") {
  CHECK(matches_name("layer1.*", "layer1.0.conv1"));
  CHECK(matches_name("h.1*", "transformer.h.11"));
  CHECK(matches_name("a*d", "a/b/c.d"));
  CHECK(matches_name("*", ".hidden"));
  CHECK(matches_name("*a*a*a*", "aaa"));
  CHECK_FALSE(matches_name("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST_CASE("a question mark is one character, and a backslash itself", "[core]") {
  CHECK(matches_name("h.?", "h.1"));
  CHECK(matches_name("h?1", "h.1"));
  CHECK_FALSE(matches_name("h.?", "h.12"));
  CHECK(matches_name("a\\*", "a\\b"));
}

}  // namespace
}  // namespace trainctl::core
