// What a stranger's file may do to the process that tries it.
#include "exporters/sandboxed_load.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace trainctl::exporters {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a trial that returns or throws is done, and its memory and words stay in the child", "[exporters]") {
  int touched = 0;
  CHECK(try_in_child(
            [&] {
              touched = 1;
              std::fputs("not to be seen\n", stderr);
            },
            10s) == TrialEnd::done);
  CHECK(touched == 0);
  CHECK(try_in_child([] { throw std::runtime_error("as it would here"); }, 10s) == TrialEnd::done);
}

TEST_CASE("a trial that crashes is told, by whichever signal", "[exporters]") {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    CHECK(try_in_child([&] { ::raise(signal); }, 10s) == TrialEnd::crashed);
}

TEST_CASE("a trial that never ends is ended", "[exporters]") {
  const auto begin = std::chrono::steady_clock::now();
  CHECK(try_in_child([] { ::pause(); }, 100ms) == TrialEnd::too_slow);
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

}  // namespace
}  // namespace trainctl::exporters
