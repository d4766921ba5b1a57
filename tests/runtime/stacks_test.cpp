#include "runtime/stacks.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

namespace trainctl::runtime {
namespace {

/// Not exported: only the symbol table has its name.
[[gnu::noinline]] void wait_until(const std::atomic<bool>& done, std::atomic<bool>& waits) {
  waits = true;
  while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_CASE("stacks name the functions of every thread, also those that no library exports", "[runtime]") {
  std::atomic<bool> done = false;
  std::atomic<bool> waits = false;
  std::thread waiting([&] { wait_until(done, waits); });
  while (!waits) std::this_thread::yield();
  const std::string text = stacks_of_all_threads();
  const std::string again = stacks_of_all_threads();
  done = true;
  waiting.join();
  for (const std::string& stacks : {text, again}) {
    INFO(stacks);
    CHECK_THAT(stacks, Catch::Contains("wait_until(std::atomic<bool> const&, std::atomic<bool>&)  (test_runtime)"));
    CHECK_THAT(stacks, Catch::Contains(", sleeping\n") || Catch::Contains(", running\n"));
    CHECK_THAT(stacks, Catch::Contains("libc.so.6)"));
    CHECK(stacks.rfind("thread ") == stacks.rfind("\nthread ") + 1);
    CHECK_THAT(stacks.substr(stacks.rfind("thread ")), Catch::Contains("which writes this"));
  }
}

}  // namespace
}  // namespace trainctl::runtime
