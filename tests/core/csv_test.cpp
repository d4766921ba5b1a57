#include "core/csv.h"

#include <catch2/catch.hpp>

namespace trainctl::core {

TEST_CASE("a cell is in quotes if it has a comma, a quote or a line end", "[core]") {
  CHECK(csv_cell("plain text") == "plain text");
  CHECK(csv_cell("") == "");
  CHECK(csv_cell("a,b") == "\"a,b\"");
  CHECK(csv_cell("say \"a\"") == "\"say \"\"a\"\"\"");
  CHECK(csv_cell("two\nlines") == "\"two\nlines\"");
}

}  // namespace trainctl::core
