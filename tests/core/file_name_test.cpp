#include "core/file_name.h"

#include <catch2/catch.hpp>

namespace trainctl::core {
namespace {

TEST_CASE("a name of a file leads nowhere else", "[core][regression]") {
  CHECK(file_name_of("digits 2") == "digits 2");
  CHECK(file_name_of("../a/b\n") == ".._a_b_");
  CHECK(file_name_of("..") == "__");
  CHECK(file_name_of(".") == "_");
  CHECK(file_name_of("...") == "...");
}

}  // namespace
}  // namespace trainctl::core
