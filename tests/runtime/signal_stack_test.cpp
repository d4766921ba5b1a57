#include "runtime/signal_stack.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <thread>

namespace trainctl::runtime {
namespace {

std::atomic<std::uintptr_t> handled_at = 0;

void note_address(int) {
  handled_at = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

bool has_stack() {
  stack_t stack{};
  return ::sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) == 0;
}

TEST_CASE("a handler runs on the thread's signal stack", "[runtime]") {
  std::thread([] {
    use_signal_stacks();
    stack_t stack{};
    REQUIRE(::sigaltstack(nullptr, &stack) == 0);
    struct sigaction action {};
    struct sigaction former {};
    action.sa_handler = &note_address;
    action.sa_flags = SA_ONSTACK;
    REQUIRE(::sigaction(SIGUSR1, &action, &former) == 0);
    ::raise(SIGUSR1);
    ::sigaction(SIGUSR1, &former, nullptr);
    const auto begin = reinterpret_cast<std::uintptr_t>(stack.ss_sp);
    CHECK(handled_at >= begin);
    CHECK(handled_at < begin + stack.ss_size);
  }).join();
}

TEST_CASE("every thread that computes has a signal stack", "[runtime]") {
  const int former = at::get_num_threads();
  for (const int num_threads : {2, 4}) {
    at::set_num_threads(num_threads);
    use_signal_stacks();
    std::atomic<int> with = 0;
    at::parallel_for(0, num_threads, 1, [&](std::int64_t, std::int64_t) { with += has_stack(); });
    CHECK(with == num_threads);
  }
  at::set_num_threads(former);
}

#ifndef TRAINCTL_SANITIZED  // AddressSanitizer gives one to every thread
TEST_CASE("a thread that asked for none has no signal stack", "[runtime]") {
  std::thread([] { CHECK_FALSE(has_stack()); }).join();
}
#endif

}  // namespace
}  // namespace trainctl::runtime
