#include "machine/kernel_files.h"

#include <catch2/catch.hpp>

namespace trainctl::machine {
namespace {

TEST_CASE("the first processor's value of a key is found", "[machine]") {
  const std::string text =
      "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 \n\nprocessor\t: 1\nmodel name\t: "
      "other\n";
  CHECK(value_of_key(text, "model name") == "AMD EPYC 7763");
  CHECK(value_of_key(text, "processor") == "0");
  CHECK(value_of_key(text, "model").empty());
  CHECK(value_of_key("", "model name").empty());
}

TEST_CASE("a limit is a number or a word", "[machine]") {
  CHECK(leading_number("12 34\n") == 12.0);
  CHECK_FALSE(leading_number("max\n"));
  CHECK_FALSE(leading_number(""));
}

TEST_CASE("a file that is absent has no text", "[machine]") {
  CHECK(text_or_empty("/no/such/file").empty());
}

}  // namespace
}  // namespace trainctl::machine
