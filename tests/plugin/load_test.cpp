#include "plugin/load.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "core/error.h"
#include "plugin/abi.h"
#include "support/temporary_directory.h"

namespace trainctl::plugin {
namespace {

/// What load() says of a file, without having loaded anything.
std::string refusal(const std::filesystem::path& file) {
  try {
    load(file, [] { FAIL("the engine is loaded for a file that is no plug-in"); });
  } catch (const core::Error& error) {
    return error.text();
  }
  return "";
}

TEST_CASE("a file is refused before it is loaded, unless it is a plug-in of this build", "[plugin]") {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "libmine.so";
  CHECK(refusal(file).find("there is no plug-in") != std::string::npos);
  CHECK(refusal(directory.path()).find("there is no plug-in") != std::string::npos);
  const std::filesystem::path pipe = directory.path() / "libpipe.so";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(pipe).find("it is a named pipe, not a file") != std::string::npos);
  std::ofstream(file) << "\x7f"
                      << "ELF, and nothing of ours";
  CHECK(refusal(file).find("is no plug-in of trainctl") != std::string::npos);
  std::ofstream(file) << "\x7f"
                      << "ELF" << kAbiMark[0] << kAbiMark[1] << "trainctl 9.9, C++ ABI 1.1@ and more";
  const std::string other = refusal(file);
  CHECK(other.find("was built for trainctl 9.9, C++ ABI 1.1; this is trainctl 0") != std::string::npos);
  CHECK(other.find("build the plug-in again") != std::string::npos);
}

TEST_CASE("the mark of this build names version, LibTorch, headers and C++ ABI", "[plugin]") {
  const std::string mark = trainctl_plugin_abi;
  CHECK(mark.starts_with(std::string(kAbiMark[0]) + kAbiMark[1] + "trainctl "));
  for (const char* part : {", LibTorch ", ", headers ", ", C++ ABI "}) CHECK(mark.find(part) != std::string::npos);
  CHECK(mark.ends_with("@"));
}

}  // namespace
}  // namespace trainctl::plugin
