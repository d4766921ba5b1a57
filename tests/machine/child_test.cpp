#include "machine/child.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace trainctl::machine {
namespace {

using std::chrono::seconds;

TEST_CASE("a child's output comes back, however long", "[machine]") {
  const ChildOutcome outcome = run_in_child(
      [] {
        std::printf("%s", std::string(1 << 20, 'x').c_str());
        return 0;
      },
      seconds(60));
  CHECK(outcome.output.size() == 1 << 20);
  CHECK(outcome.problem.empty());
}

TEST_CASE("a child that crashes is a problem with the signal's name", "[machine]") {
  const ChildOutcome outcome = run_in_child(
      [] {
        std::signal(SIGILL, SIG_DFL);
        std::raise(SIGILL);
        return 0;
      },
      seconds(60));
  CHECK_THAT(outcome.problem, Catch::Contains("signal 4 (Illegal instruction)"));
}

TEST_CASE("a child that hangs is ended at the limit", "[machine]") {
  const ChildOutcome outcome = run_in_child(
      [] {
        ::sleep(600);
        return 0;
      },
      std::chrono::milliseconds(200));
  CHECK_THAT(outcome.problem, Catch::Contains("took longer than"));
}

TEST_CASE("a child's exception and its last line of errors are the problem", "[machine]") {
  CHECK(run_in_child([]() -> int { throw std::runtime_error("no such thing"); }, seconds(60)).problem ==
        "no such thing");
  const auto fail = [] {
    std::fprintf(stderr, "first line\nsecond line\n\n");
    return 3;
  };
  CHECK(run_in_child(fail, seconds(60)).problem == "second line");
  CHECK(run_in_child([] { return 3; }, seconds(60)).problem == "the probe ended with 3");
}

}  // namespace
}  // namespace trainctl::machine
