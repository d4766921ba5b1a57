#include "train/loop/stop_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/stop_signals.h"

namespace trainctl::train {
namespace {

constexpr std::chrono::milliseconds kGrace{1500};

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t received_signal = 0;
std::atomic<int> num_deferrals = 0;
std::atomic<int> num_unsaved = 0;
std::atomic<int> num_acknowledging = 0;
int arrived = -1;  // an eventfd that can be read from the first signal on

// Guarded by the mutex: the handlers of those who were there before the first StopSignal.
std::mutex users_mutex;
int num_users = 0;
std::array<struct sigaction, core::kStopSignals.size()> former_actions;

void add_one(int event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(event, &one, sizeof one);
}

/// Returns whether stdout or stderr has lost its reader. A library's socket may raise SIGPIPE too, which is no reason
/// to stop: its write fails.
bool has_lost_reader() {
  std::array<pollfd, 2> outputs{{{STDOUT_FILENO, POLLOUT, 0}, {STDERR_FILENO, POLLOUT, 0}}};
  if (::poll(outputs.data(), outputs.size(), 0) <= 0) return false;
  return ((outputs[0].revents | outputs[1].revents) & POLLERR) != 0;
}

void on_signal(int signal) {
  if (signal == SIGPIPE && !has_lost_reader()) return;
  if (num_deferrals == 0 || (signal == SIGINT && received_signal == SIGINT)) ::_exit(128 + signal);
  received_signal = signal;
  add_one(arrived);
}

void install_handlers() {
  if (arrived < 0) arrived = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  received_signal = 0;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(arrived, &count, sizeof count);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // open_device() gave the threads that compute stacks for it
  for (std::size_t i = 0; i < core::kStopSignals.size(); ++i) {
    ::sigaction(core::kStopSignals[i], nullptr, &former_actions[i]);
    if (former_actions[i].sa_handler != SIG_IGN) ::sigaction(core::kStopSignals[i], &action, nullptr);
  }
}

/// Returns whether the event comes within that time.
bool comes_within(int event, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (auto left = patience; left.count() > 0;
       left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())) {
    pollfd waited{event, POLLIN, 0};
    if (::poll(&waited, 1, static_cast<int>(left.count())) > 0) return true;
  }
  return false;
}

void write_to_stderr(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Answers a Ctrl-C at once: a step or an evaluation's batch may take a while.
void acknowledge() {
  if (received_signal != SIGINT || num_acknowledging == 0 || ::isatty(STDERR_FILENO) != 1) return;
  write_to_stderr("\r\x1b[2Kstopping after this step; press Ctrl-C again to stop at once\n");
}

/// Waits for a signal. Then waits for the training to end, as long as unsaved steps may still be saved.
void watch(int ended) {
  std::array<pollfd, 2> events{{{arrived, POLLIN, 0}, {ended, POLLIN, 0}}};
  bool is_acknowledged = false;
  while (::poll(events.data(), events.size(), -1) < 0 || events[1].revents == 0) {
    if (events[0].revents == 0) continue;
    if (!std::exchange(is_acknowledged, true)) acknowledge();
    if (comes_within(ended, kGrace)) return;
    if (num_deferrals == 0 || num_unsaved > 0) continue;
    write_to_stderr("\ntrainctl: stopped within a step; all steps before it are saved\n");
    ::_exit(128 + received_signal);
  }
}

}  // namespace

StopSignal::StopSignal() : ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  {
    const std::lock_guard lock(users_mutex);
    if (num_users++ == 0) install_handlers();
  }
  watch_ = std::thread(watch, ended_);
}

StopSignal::~StopSignal() {
  add_one(ended_);
  watch_.join();
  ::close(ended_);
  const std::lock_guard lock(users_mutex);
  if (--num_users > 0) return;
  for (std::size_t i = 0; i < core::kStopSignals.size(); ++i)
    ::sigaction(core::kStopSignals[i], &former_actions[i], nullptr);
}

int StopSignal::received() const {
  return received_signal;
}

StopSignal::Deferral::Deferral(std::int64_t step, Acknowledgement acknowledgement)
    : acknowledges_(acknowledgement == Acknowledgement::on_terminal), made_(step), saved_(step) {
  if (acknowledges_) ++num_acknowledging;
  ++num_deferrals;
}

StopSignal::Deferral::~Deferral() {
  step_saved(made_);
  --num_deferrals;
  if (acknowledges_) --num_acknowledging;
}

void StopSignal::Deferral::step_made(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  made_ = step;
  compare();
}

void StopSignal::Deferral::step_saved(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  saved_ = step;
  compare();
}

void StopSignal::Deferral::compare() {
  const bool is_unsaved = made_ != saved_;
  if (is_unsaved == is_unsaved_) return;
  is_unsaved_ = is_unsaved;
  num_unsaved += is_unsaved ? 1 : -1;
}

}  // namespace trainctl::train
