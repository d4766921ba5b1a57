#include "machine/libtorch.h"

#include <catch2/catch.hpp>

#include "support/environment_variable.h"
#include "support/temporary_directory.h"

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

/// Makes an empty directory pass for a LibTorch of no version.
void make_libtorch(const testing::TemporaryDirectory& directory) {
  directory.write("lib/libtorch_cpu.so", "");
}

TEST_CASE("the version is read from whichever file a LibTorch carries", "[machine]") {
  const testing::TemporaryDirectory libtorch;
  make_libtorch(libtorch);
  CHECK(libtorch_version(libtorch.path()).empty());
  libtorch.write("include/torch/headeronly/version.h",
                 "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n#define TORCH_VERSION_PATCH 1\n");
  CHECK(libtorch_version(libtorch.path()) == "2.9.1");
  libtorch.write("version.py", "from typing import Optional\n__version__ = '2.10.0+cpu'\ndebug = False\n");
  CHECK(libtorch_version(libtorch.path()) == "2.10.0+cpu");
  libtorch.write("build-version", "2.11.0+cu130\n");
  CHECK(libtorch_version(libtorch.path()) == "2.11.0+cu130");
}

TEST_CASE("only the first two numbers of a version must agree", "[machine]") {
  const std::string built = kBuiltLibtorchVersion;
  CHECK(version_problem({.root = "/x", .version = built + ".0+cu130"}).empty());
  CHECK(version_problem({.root = "/x", .version = built + ".7"}).empty());
  CHECK(version_problem({.root = "/x", .version = built + "a0"}).empty());
  CHECK(version_problem({.root = "/x", .version = ""}).empty());
  CHECK(version_problem({.root = "/x", .version = "1.13.1"}) ==
        "LibTorch 1.13 at /x; this trainctl was built with " + built);
  CHECK_FALSE(version_problem({.root = "/x", .version = built + "0.0"}).empty());
}

TEST_CASE("the environment names another LibTorch than the build's", "[machine]") {
  const testing::TemporaryDirectory libtorch;
  make_libtorch(libtorch);
  const fs::path no_package = libtorch.path() / "bin";
  REQUIRE(find_libtorch(no_package));
  CHECK(find_libtorch(no_package)->named_by == "the build");
  CHECK_FALSE(find_libtorch(no_package)->version.empty());
  {
    const testing::EnvironmentVariable path("LD_LIBRARY_PATH",
                                            ("/no/such/directory:" + (libtorch.path() / "lib/").string()).c_str());
    REQUIRE(find_libtorch(no_package));
    CHECK(find_libtorch(no_package)->root == libtorch.path());
    CHECK(find_libtorch(no_package)->named_by == "LD_LIBRARY_PATH");
  }
  {
    const testing::EnvironmentVariable root("TRAINCTL_LIBTORCH", libtorch.path().string().c_str());
    CHECK(find_libtorch(no_package)->root == libtorch.path());
  }
  const testing::EnvironmentVariable root("TRAINCTL_LIBTORCH", "/no/such/directory");
  CHECK_FALSE(find_libtorch(no_package));
}

TEST_CASE("a package's own LibTorch comes before the build's", "[machine]") {
  const testing::TemporaryDirectory directory;
  const fs::path engine = directory.path() / "site-packages/trainctl_engine";
  directory.write("site-packages/torch/lib/libtorch_cpu.so", "");
  directory.write("site-packages/torch/version.py", "__version__ = '2.12.1+cu130'\n");
  const auto wheel = find_libtorch(engine);
  REQUIRE(wheel);
  CHECK(wheel->root == directory.path() / "site-packages/torch");
  CHECK(wheel->named_by == "the package");
  CHECK(line_that_gets_release(*wheel) ==
        std::string("pip install torch==") + kBuiltLibtorchVersion + ".0, in the same environment");

  directory.write("site-packages/trainctl_engine/torch/lib/libtorch_cpu.so", "");
  CHECK(find_libtorch(engine)->root == engine / "torch");
}

TEST_CASE("LibTorch needs SSE4.1", "[machine]") {
  CHECK(missing_instruction_set({.sse4_1 = true}).empty());
#if defined(__x86_64__)
  CHECK(missing_instruction_set({}) == "SSE4.1");
#endif
}

}  // namespace
}  // namespace trainctl::machine
