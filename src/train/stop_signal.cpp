#include "train/stop_signal.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace trainctl {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) {
  if (signal == SIGINT && received_signal == SIGINT) _exit(128 + SIGINT);
  received_signal = signal;
}

/// Of this thread, which computes: oneDNN's AVX-512 sgemm has data where a signal's frame would else be written, and a
/// SIGTERM in it left a damaged heap.
void handle_signals_on_a_stack_of_their_own() {
  static std::array<std::byte, std::size_t{64} << 10> memory;  // a frame has all registers: 11 KiB with AMX
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  handle_signals_on_a_stack_of_their_own();
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

StopSignal::~StopSignal() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignal::received() const {
  return received_signal;
}

}  // namespace trainctl
