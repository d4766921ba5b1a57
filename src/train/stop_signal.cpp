#include "train/stop_signal.h"

#include <unistd.h>

#include <csignal>

namespace trainctl {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) {
  if (signal == SIGINT && received_signal == SIGINT) _exit(128 + SIGINT);
  received_signal = signal;
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // open_device() gave the threads that compute stacks for it
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
