// The signals that ask a training to end: SIGINT, SIGTERM, SIGHUP, and SIGPIPE where the reader of standard output or
// error has gone (`trainctl train 2>&1 | head`).
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace trainctl::train {

/// Returns the signal that this rank was sent, or 0.
using SignalSource = std::function<int()>;

/// While it lives, a signal ends the process at once with 128 + its number, as long as nobody defers it. A second
/// SIGINT does so in any case. A signal that the process was started to ignore (nohup) stays ignored. Several may live:
/// they see the same signals.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();
  /// The signal that came while it was deferred, or 0.
  int received() const;

  /// Whether the terminal is told that a Ctrl-C was received.
  enum class Acknowledgement { none, on_terminal };

  /// A scope in which a signal doesn't end the process at once. received() returns the signal, so that the trainer
  /// saves and ends after the current micro-batch. A micro-batch may be long, so the process ends after 1.5 s if
  /// nothing is left to save.
  class Deferral {
   public:
    /// Defers signals for a run that stands at `step` and whose state can be had again.
    explicit Deferral(std::int64_t step, Acknowledgement acknowledgement = Acknowledgement::none);
    Deferral(const Deferral&) = delete;
    Deferral& operator=(const Deferral&) = delete;
    ~Deferral();
    /// From any thread.
    void step_made(std::int64_t step);
    void step_saved(std::int64_t step);

   private:
    void compare();

    const bool acknowledges_;
    std::mutex mutex_;
    std::int64_t made_;
    std::int64_t saved_;
    bool is_unsaved_ = false;
  };

 private:
  int ended_;  // an eventfd: the watch has nothing to watch any more
  std::thread watch_;
};

}  // namespace trainctl::train
