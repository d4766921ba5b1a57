#include "core/mapped_file.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "support/temporary_directory.h"

namespace trainctl::core {
namespace {

using Catch::Contains;
using testing::TemporaryDirectory;

constexpr std::size_t kBytes = 64 << 10;

TEST_CASE("a mapped file that is cut short gives zeros, and then an error that names it", "[core]") {
  const TemporaryDirectory scratch;
  const auto path = scratch.path() / "ids.bin";
  write_file_atomically(path, std::string(kBytes, 'x'));
  const MapAccess access = GENERATE(MapAccess::read_only, MapAccess::copy_on_write);
  {
    const MappedFile file(path, access);
    CHECK_NOTHROW(check_mapped_files());
    REQUIRE(::truncate(path.c_str(), 5000) == 0);
    CHECK(file.bytes()[100] == std::byte{'x'});
    CHECK_NOTHROW(check_mapped_files());
    CHECK(std::count(file.bytes().begin() + 40'000, file.bytes().end(), std::byte{0}) ==
          static_cast<std::ptrdiff_t>(kBytes) - 40'000);
    CHECK_THROWS_WITH(check_mapped_files(), Contains("ids.bin") && Contains("shorter"));
    CHECK_THROWS_AS(check_mapped_files(), Error);  // for as long as it is mapped
    if (access == MapAccess::copy_on_write) file.writable_bytes()[kBytes - 1] = std::byte{1};
  }
  CHECK_THROWS_AS(check_mapped_files(), Error);  // and once afterwards
  CHECK_NOTHROW(check_mapped_files());
  const MappedFile again(path);
  CHECK(again.bytes().size() == 5000);
  CHECK_NOTHROW(check_mapped_files());
}

TEST_CASE("only the file that was cut short is named", "[core]") {
  const TemporaryDirectory scratch;
  for (const char* name : {"whole", "short"}) write_file_atomically(scratch.path() / name, std::string(kBytes, 'x'));
  const MappedFile whole(scratch.path() / "whole");
  MappedFile cut(scratch.path() / "short");
  const MappedFile moved = std::move(cut);
  REQUIRE(::truncate((scratch.path() / "short").c_str(), 0) == 0);
  CHECK(moved.bytes().back() == std::byte{0});
  CHECK(whole.bytes().back() == std::byte{'x'});
  CHECK_THROWS_WITH(check_mapped_files(), Contains("short") && !Contains("whole"));
}

}  // namespace
}  // namespace trainctl::core
