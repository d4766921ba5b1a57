// Scripts of tests/reference that look at files a test wrote.
#pragma once

#include <sys/wait.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace trainctl::testing {

/// Runs `tests/reference/<script> <arguments>` with the directory as its last argument. A failure fails the test with
/// what the script said; false, and a loud warning, where its packages aren't installed.
inline bool run_python(const std::string& script, const std::filesystem::path& directory,
                       const std::string& arguments = "") {
  const std::string python = TRAINCTL_PYTHON;
  const std::filesystem::path log = directory.string() + ".stderr.txt";
  const std::string command = "'" + python + "' '" TRAINCTL_SOURCE_DIR "/tests/reference/" + script + "' " + arguments +
                              " '" + directory.string() + "' 2>'" + log.string() + "'";
  const int status = python.empty() ? 77 << 8 : std::system(command.c_str());
  std::ifstream file(log);
  const std::string said(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(log);
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) {
    WARN("SKIPPED: packages that " << script << " needs are missing; scripts/setup.sh installs them into .deps/python");
    return false;
  }
  INFO(said);
  REQUIRE(status == 0);
  return true;
}

}  // namespace trainctl::testing
