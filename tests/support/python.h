// Scripts of tests/reference, which write what a test compares with, or read what a test wrote.
#pragma once

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/skip.h"
#include "support/temporary_directory.h"

namespace trainctl::testing {

/// Runs a script of tests/reference with arguments. A failure fails the test, with the script's standard error. Skips
/// the test if the script's packages are not installed for TRAINCTL_PYTHON: the script exits with 77. A script that
/// takes longer than ten minutes fails, so that the test that waits for it is named.
inline void run_reference(const std::string& script, const std::vector<std::string>& arguments) {
  constexpr int kLacksPackages = 77;
  constexpr int kNotFound = 127;
  const TemporaryDirectory directory;
  const std::filesystem::path log = directory / "stderr.txt";
  std::string command =
      "timeout -k 5 600 '" TRAINCTL_PYTHON "' '" TRAINCTL_SOURCE_DIR "/tests/reference/" + script + "'";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  const int status = std::string(TRAINCTL_PYTHON).empty()
                         ? kNotFound << 8
                         : std::system((command + " 2>'" + log.string() + "'").c_str());
  if (WIFEXITED(status) && (WEXITSTATUS(status) == kLacksPackages || WEXITSTATUS(status) == kNotFound))
    skip("no packages for tests/reference/" + script + " in .deps/python (scripts/setup.sh --tests)");
  std::ifstream file(log);
  INFO(std::string(std::istreambuf_iterator<char>(file), {}));
  REQUIRE(status == 0);
}

/// Downloads a data set with scripts/fetch_data.py, if it is not there yet, and returns its directory. Skips the test
/// if the set cannot be had.
inline std::filesystem::path fetch_data(const std::string& name) {
  const std::string command = "'" TRAINCTL_PYTHON "' '" TRAINCTL_SOURCE_DIR "/scripts/fetch_data.py' " + name;
  if (std::system((command + " >/dev/null").c_str()) != 0) skip("the data set " + name + " cannot be fetched");
  return std::filesystem::path(TRAINCTL_SOURCE_DIR) / ".deps/data" / name;
}

}  // namespace trainctl::testing
