#include "machine/installation.h"

#include <catch2/catch.hpp>

#include "support/temporary_directory.h"

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

fs::path place_engine(const testing::TemporaryDirectory& prefix, const std::string& directory) {
  prefix.write(directory + "/libtrainctl_engine.so", "");
  return prefix.path() / directory;
}

TEST_CASE("the engine is found in a build, a prefix and a Python environment", "[machine]") {
  const testing::TemporaryDirectory prefix;
  const fs::path program = prefix.path() / "bin/trainctl";
  CHECK(library_directory(program) == prefix.path() / "lib/trainctl");

  const fs::path debian = place_engine(prefix, "lib/python3.11/dist-packages/trainctl_engine");
  CHECK(library_directory(program) == debian);
  const fs::path environment = place_engine(prefix, "lib/python3.14/site-packages/trainctl_engine");
  fs::last_write_time(debian / kEngineFile, fs::last_write_time(environment / kEngineFile) - std::chrono::hours(1));
  CHECK(library_directory(program) == environment);
  fs::last_write_time(debian / kEngineFile, fs::last_write_time(environment / kEngineFile) + std::chrono::hours(1));
  CHECK(library_directory(program) == debian);

  const fs::path installed = place_engine(prefix, "lib/trainctl");
  CHECK(library_directory(program) == installed);
  const fs::path build = place_engine(prefix, "lib");
  CHECK(library_directory(program) == build);
}

TEST_CASE("a library is found in a build that has no engine yet", "[machine]") {
  const testing::TemporaryDirectory prefix;
  prefix.write("lib/libtrainctl_parquet.so", "");
  CHECK(library_directory(prefix.path() / "bin/test_dataset", "libtrainctl_parquet.so") == prefix.path() / "lib");
}

}  // namespace
}  // namespace trainctl::machine
