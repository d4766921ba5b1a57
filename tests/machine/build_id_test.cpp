#include "machine/build_id.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>

namespace trainctl::machine {
namespace {

/// What binutils reads from the file of this program; "" without binutils.
std::string build_id_by_readelf() {
  const std::string command = "readelf -n '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' 2>/dev/null | sed -n 's/ *Build ID: //p'";
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 128> line{};
  const bool is_read = std::fgets(line.data(), line.size(), pipe) != nullptr;
  ::pclose(pipe);
  std::string text = is_read ? line.data() : "";
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

TEST_CASE("the build ID is the one that binutils finds in the program", "[machine]") {
  const std::string expected = build_id_by_readelf();
  REQUIRE_FALSE(expected.empty());
  CHECK(build_id() == expected);
}

}  // namespace
}  // namespace trainctl::machine
