#include "core/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/mapped_file.h"
#include "support/temporary_directory.h"

namespace trainctl::core {
namespace {

using Catch::Contains;
using testing::TemporaryDirectory;

TEST_CASE("what isn't a regular file is refused at once, by its kind", "[core]") {
  const TemporaryDirectory scratch;
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

TEST_CASE("a sparse file that is larger than the memory is refused before it is read", "[core][regression]") {
  const TemporaryDirectory scratch;
  const auto sparse = scratch.write("sparse", "");
  std::filesystem::resize_file(sparse, std::uintmax_t{1} << 43);
  CHECK_THROWS_WITH(read_file(sparse), Contains("sparse has 8796093022208 bytes; at most"));
}

TEST_CASE("a private directory is this user's own, and others could leave nothing in it", "[core]") {
  const TemporaryDirectory scratch;
  const auto own = scratch.path() / "own";
  CHECK_FALSE(is_private_directory(own));
  make_private_directory(own);
  CHECK(is_private_directory(own));
  CHECK(std::filesystem::status(own).permissions() == std::filesystem::perms::owner_all);

  for (const mode_t mode : {0777, 0770, 01777}) {
    REQUIRE(::chmod(own.c_str(), mode) == 0);
    CHECK_THROWS_WITH(is_private_directory(own), Contains("other users, who could have left links in it"));
    CHECK_THROWS_AS(make_private_directory(own), Error);
  }
  const auto link = scratch.path() / "link";
  std::filesystem::create_directory_symlink("/tmp", link);
  CHECK_THROWS_WITH(make_private_directory(link), Contains("is not a directory"));

  // The root user may give a directory away; to everyone else the root directory is another's.
  std::filesystem::path others = "/";
  if (::geteuid() == 0) {
    others = scratch.path() / "others";
    make_private_directory(others);
    REQUIRE(::chown(others.c_str(), 65'534, 65'534) == 0);
  }
  CHECK_THROWS_WITH(make_private_directory(others), Contains("belongs to another user"));
}

TEST_CASE("a released descriptor stays open", "[core]") {
  const TemporaryDirectory scratch;
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
