#include "runs/run_directories.h"

#include <catch2/catch.hpp>

namespace trainctl::runs {
namespace {

TEST_CASE("the name of an experiment leads to no other directory", "[runs][regression]") {
  CHECK(directory_of("digits 2") == "runs/digits 2");
  CHECK(directory_of("../a/b\n") == "runs/.._a_b_");
  CHECK(directory_of("..") == "runs/__");
  CHECK(directory_of(".") == "runs/_");
  CHECK(directory_of("...") == "runs/...");
}

}  // namespace
}  // namespace trainctl::runs
