#include "machine/libtorch.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

/// A written LibTorch directory, removed with the object.
class WrittenLibtorch {
 public:
  WrittenLibtorch() : root_(fs::temp_directory_path() / ("trainctl_libtorch_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    write("lib/libtorch_cpu.so", "");
  }
  ~WrittenLibtorch() { fs::remove_all(root_); }
  WrittenLibtorch(const WrittenLibtorch&) = delete;
  WrittenLibtorch& operator=(const WrittenLibtorch&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

/// Sets a variable for the life of the object.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST_CASE("the version is read from whichever file a LibTorch carries", "[machine]") {
  const WrittenLibtorch libtorch;
  CHECK(libtorch_version(libtorch.root()).empty());
  libtorch.write("include/torch/headeronly/version.h",
                 "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n#define TORCH_VERSION_PATCH 1\n");
  CHECK(libtorch_version(libtorch.root()) == "2.9.1");
  libtorch.write("version.py", "from typing import Optional\n__version__ = '2.10.0+cpu'\ndebug = False\n");
  CHECK(libtorch_version(libtorch.root()) == "2.10.0+cpu");
  libtorch.write("build-version", "2.11.0+cu130\n");
  CHECK(libtorch_version(libtorch.root()) == "2.11.0+cu130");
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
  const WrittenLibtorch libtorch;
  REQUIRE(find_libtorch());
  CHECK(find_libtorch()->named_by == "the build");
  CHECK_FALSE(find_libtorch()->version.empty());
  {
    const Variable path("LD_LIBRARY_PATH", "/no/such/directory:" + (libtorch.root() / "lib/").string());
    REQUIRE(find_libtorch());
    CHECK(find_libtorch()->root == libtorch.root());
    CHECK(find_libtorch()->named_by == "LD_LIBRARY_PATH");
  }
  {
    const Variable root("TRAINCTL_LIBTORCH", libtorch.root().string());
    CHECK(find_libtorch()->root == libtorch.root());
  }
  const Variable root("TRAINCTL_LIBTORCH", "/no/such/directory");
  CHECK_FALSE(find_libtorch());
}

TEST_CASE("LibTorch needs SSE4.1", "[machine]") {
  CHECK(missing_instruction_set({.sse4_1 = true}).empty());
#if defined(__x86_64__)
  CHECK(missing_instruction_set({}) == "SSE4.1");
#endif
}

}  // namespace
}  // namespace trainctl::machine
