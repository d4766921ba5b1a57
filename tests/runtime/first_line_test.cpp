#include "runtime/first_line.h"

#include <c10/util/Exception.h>

#include <catch2/catch.hpp>
#include <stdexcept>

namespace trainctl {
namespace {

TEST_CASE("an error is told in a line, LibTorch's without its stack", "[runtime]") {
  CHECK(first_line(std::runtime_error("one\ntwo")) == "one");
  CHECK(first_line(std::runtime_error("")).empty());
  try {
    TORCH_CHECK(false, "sizes differ");
  } catch (const std::exception& error) {
    CHECK(first_line(error) == "sizes differ");
  }
}

}  // namespace
}  // namespace trainctl
