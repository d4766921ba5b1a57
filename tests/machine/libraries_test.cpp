#include "machine/libraries.h"

#include <catch2/catch.hpp>

namespace trainctl::machine {
namespace {

TEST_CASE("the loader's message names the library that is missing", "[machine]") {
  CHECK(missing_library("libgomp.so.1: cannot open shared object file: No such file or directory") == "libgomp.so.1");
  CHECK(missing_library("/opt/lib/libc10.so: cannot open shared object file: No such file or directory") ==
        "libc10.so");
  CHECK(missing_library("/opt/lib/libc10.so: undefined symbol: abc").empty());
}

TEST_CASE("a missing library has one line that gets it", "[machine]") {
  CHECK(line_that_gets("libgomp.so.1") == "apt-get install libgomp1");
  CHECK(line_that_gets("libpng16.so.16") == "apt-get install libpng16-16");
  CHECK_THAT(line_that_gets("libtorch_cpu.so"), Catch::Contains("TRAINCTL_LIBTORCH"));
  CHECK_THAT(line_that_gets("libtrainctl_engine.so"), Catch::Contains("lib/ beside bin/"));
}

TEST_CASE("a loaded library is found by the beginning of its name", "[machine]") {
  CHECK(loaded_library("libc.so").filename() == "libc.so.6");
  CHECK(loaded_library("libno_such").empty());
}

}  // namespace
}  // namespace trainctl::machine
