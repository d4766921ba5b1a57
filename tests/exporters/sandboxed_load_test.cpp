// What a stranger's file may do to the process that tries it.
#include "exporters/sandboxed_load.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
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
            120s) == TrialEnd::done);
  CHECK(touched == 0);
  CHECK(try_in_child([] { throw std::runtime_error("as it would here"); }, 120s) == TrialEnd::done);
}

TEST_CASE("a trial that crashes is told, by whichever signal", "[exporters]") {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    CHECK(try_in_child([&] { ::raise(signal); }, 120s) == TrialEnd::crashed);
}

TEST_CASE("a trial that never ends is ended, and leaves no process behind", "[exporters]") {
  CHECK(try_in_child([] { ::pause(); }, 100ms) == TrialEnd::too_slow);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

}  // namespace
}  // namespace trainctl::exporters
