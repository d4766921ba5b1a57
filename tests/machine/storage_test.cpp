#include "machine/storage.h"

#include <catch2/catch.hpp>

#include "support/temporary_directory.h"

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the write rate is measured, and nothing is left behind", "[machine]") {
  const testing::TemporaryDirectory directory;
  const WriteRate rate = measure_write_rate(directory.path());
  CHECK(rate.problem.empty());
  CHECK(rate.bytes_per_s > 0);
  CHECK(fs::is_empty(directory.path()));
}

TEST_CASE("a directory that cannot be written is a problem, not an exception", "[machine]") {
  CHECK_THAT(measure_write_rate("/no/such/directory").problem, Catch::Contains("No such file"));
  CHECK_FALSE(measure_write_rate("/proc").problem.empty());
  CHECK_FALSE(space_of("/no/such/directory").problem.empty());
}

TEST_CASE("a directory that does not exist yet lies on its nearest parent's disk", "[machine]") {
  CHECK(nearest_directory("/no/such/directory") == "/");
  CHECK(nearest_directory(fs::temp_directory_path() / "no_such/directory") == fs::temp_directory_path());
  CHECK(nearest_directory("no_such_directory") == fs::current_path());
}

TEST_CASE("space is known where a file system is", "[machine]") {
  const Space space = space_of(fs::temp_directory_path());
  CHECK(space.problem.empty());
  CHECK(space.total_bytes > 0);
  CHECK(space.free_bytes <= space.total_bytes);
}

}  // namespace
}  // namespace trainctl::machine
