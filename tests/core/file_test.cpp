#include "core/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/mapped_file.h"
#include "support/scratch.h"

namespace trainctl::core {
namespace {

using Catch::Contains;
using testing::Scratch;

TEST_CASE("what isn't a regular file is refused at once, by its kind", "[core]") {
  const Scratch scratch;
  const auto pipe = scratch.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file(pipe), Contains("pipe: it is a named pipe"));
  CHECK_THROWS_WITH(checksum_file(pipe), Contains("it is a named pipe"));
  CHECK_THROWS_WITH(MappedFile(pipe), Contains("it is a named pipe"));
  CHECK_THROWS_WITH(read_file(scratch.path()), Contains("it is a directory"));
  CHECK_THROWS_WITH(read_file("/dev/zero", 1 << 20), Contains("it is a device"));
  CHECK_THROWS_WITH(read_file(scratch.path() / "none"), Contains("No such file"));
  CHECK_THROWS_WITH(read_file("/proc/self/status", 10), Contains("over 10 bytes"));
}

TEST_CASE("a released descriptor stays open", "[core]") {
  const Scratch scratch;
  write_file_atomically(scratch.path() / "a", "abc");
  int descriptor = -1;
  {
    RegularFile file(scratch.path() / "a");
    CHECK(file.size() == 3);
    descriptor = file.release();
  }
  char byte = 0;
  CHECK(::read(descriptor, &byte, 1) == 1);
  ::close(descriptor);
}

}  // namespace
}  // namespace trainctl::core
