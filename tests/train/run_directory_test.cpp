#include "train/run_directory.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/file.h"
#include "small_run.h"

using namespace trainctl;
using namespace trainctl::testing;
namespace fs = std::filesystem;

namespace {

/// Runs happen below the current directory.
class InTemporaryDirectory {
 public:
  InTemporaryDirectory() { fs::current_path(directory_.path()); }
  ~InTemporaryDirectory() { fs::current_path(before_); }

 private:
  fs::path before_ = fs::current_path();
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("each run without a directory gets a new one", "[train]") {
  const InTemporaryDirectory here;
  const RunDirectory first = choose_run_directory({.name = "a/b", .run_dir = "", .resume = "auto", .config_hash = "1"});
  const RunDirectory second =
      choose_run_directory({.name = "a/b", .run_dir = "", .resume = "auto", .config_hash = "1"});
  CHECK(first.path != second.path);
  CHECK(first.path.parent_path() == fs::path("runs") / "a_b");
  CHECK_FALSE(first.resume_from);
}

TEST_CASE("a directory is held by one process at a time", "[train]") {
  const TemporaryDirectory directory;
  const RunDirectory held =
      choose_run_directory({.name = "x", .run_dir = directory.path().string(), .resume = "auto", .config_hash = "1"});
  CHECK(DirectoryLock::is_held(directory.path()));
  CHECK_THROWS_WITH(
      choose_run_directory({.name = "x", .run_dir = directory.path().string(), .resume = "auto", .config_hash = "1"}),
      Catch::Contains("another process"));
}

TEST_CASE("a path that holds no checkpoint can't be resumed", "[train]") {
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(
      choose_run_directory({.name = "x", .run_dir = "", .resume = directory.path().string(), .config_hash = "1"}),
      Error);
}
