// The training loop.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tracking/event.h"
#include "train/loop/checkpointer.h"
#include "train/loop/non_finite.h"
#include "train/loop/prediction_log.h"
#include "train/loop/step.h"
#include "train/loop/stop_signal.h"
#include "train/monitor/run_monitor.h"
#include "train/monitor/watchdog.h"
#include "train/profile/profile.h"
#include "train/run/run.h"

namespace trainctl::train {

struct TrainerOptions {
  std::filesystem::path run_directory;
  std::map<std::string, std::string> config;  // flattened, for the checkpoint and its comparison
  std::chrono::steady_clock::time_point process_start = std::chrono::steady_clock::now();
  std::string next_command = {};    // for the trained model, told at the end
  std::string resume_command = {};  // told to the user who stops the run
  /// Makes the run directory anew if somebody has removed it, and returns whether that was so. The first rank has it.
  std::function<bool()> renew_directory = {};
  /// For ranks that train together: called after every update; and to name the cause of a failure that is a peer's.
  std::function<void(std::int64_t step)> on_step = {};
  std::function<std::string(const std::exception&)> explain = {};
  /// Tells the others what this rank does since it made `step`, and returns which ranks differ.
  std::function<void(const std::string& doing, std::int64_t step)> tell_doing = {};
  std::function<std::string(std::int64_t step)> diagnose_stall = {};
  ShowSample show_sample = {};  // of the evaluation set; of the rank that writes the files
};

/// Trains a run from its step to its end, or until a signal. The whole control flow is run() and train_step(). Events
/// go to the sink.
class Trainer {
 public:
  Trainer(Run& run, tracking::Sink& sink, const StopSignal& stop, TrainerOptions options);
  /// Returns the signal that stopped it, or 0. Failures are exceptions; RunFinished is sent in every case.
  int run();

 private:
  /// The scope of what belongs to no step: the watchdog does not count it, nor does the throughput.
  class Pause;

  /// Sends RunStarted, and begins to count.
  void start();
  /// abandoned: a signal came before the last micro-batch, and nothing has changed. rolled_back: the run is at an
  /// earlier step, which it had made before.
  enum class StepEnd { made, abandoned, rolled_back };
  /// Makes an update, with its record.
  StepEnd train_step();
  void log(const StepResult& result);
  void evaluate();
  /// Returns whether a loss may make the run go back to a checkpoint.
  bool may_roll_back() const;
  /// Begins and ends the profile that `profiler.start_step` asks for.
  void update_profile();
  void check_run_directory();
  /// Throws Error if no step of the run changed the weights.
  void refuse_run_without_update() const;
  void finish(tracking::Outcome outcome, const std::string& error);
  /// Returns the signal that this rank, or another one, was sent; or 0.
  int signal() const;
  /// Returns the number of updates that were left out; 0 if the run has failed and the device answers nothing.
  std::int64_t num_skipped(tracking::Outcome outcome) const;
  bool is_stopped_early() const;
  /// Tells why the run ends, if it is stopped early.
  void tell_early_stop();
  /// Returns whether the run is evaluated at its step.
  bool is_evaluation_due() const;
  bool is_last_step() const { return run_.step == run_.length.total_steps; }
  bool is_due(std::int64_t every) const { return every > 0 && run_.step % every == 0; }

  Run& run_;
  tracking::Sink& sink_;
  const StopSignal& stop_;
  TrainerOptions options_;
  StopSignal::Deferral deferral_;
  Step step_;
  NonFiniteSteps non_finite_;
  Checkpointer checkpointer_;
  RunMonitor monitor_;
  std::optional<PredictionLog> predictions_;  // none without an evaluation set
  std::optional<RunProfile> profile_;
  std::optional<Watchdog> watchdog_;  // while it trains
  int signal_ = 0;                    // as of the last step, over all ranks
  bool lacks_evaluation_ = false;     // the last one was broken off
};

}  // namespace trainctl::train
