// The training loop.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/node_snapshots.h"
#include "runtime/memory.h"
#include "train/loop/evaluate.h"
#include "train/loop/step.h"
#include "train/loop/stop_signal.h"
#include "train/monitor/data_stall_monitor.h"
#include "train/monitor/mfu.h"
#include "train/monitor/straggler_monitor.h"
#include "train/monitor/throughput.h"
#include "train/monitor/watchdog.h"
#include "train/profile/profile.h"
#include "train/run/run.h"

namespace trainctl::train {

struct TrainerOptions {
  std::filesystem::path run_directory;
  std::map<std::string, std::string> config;  // flattened, for the checkpoint and its comparison
  std::chrono::steady_clock::time_point process_start = std::chrono::steady_clock::now();
  /// Makes the run directory anew where somebody has removed it, and says whether that was so. Of the first rank.
  std::function<bool()> renew_directory = {};
  /// For those who train together: told of every update; and asked for the cause of a failure that is a peer's.
  std::function<void(std::int64_t step)> on_step = {};
  std::function<std::string(const std::exception&)> explain = {};
  /// Tells the others what this rank does since it made `step`, and returns which ranks differ.
  std::function<void(const std::string& doing, std::int64_t step)> tell_doing = {};
  std::function<std::string(std::int64_t step)> compare_hang = {};
};

/// Trains a run from where it stands to its end, or until a signal. The whole control flow is run(); what happens goes
/// to the sink.
class Trainer {
 public:
  Trainer(Run& run, tracking::Sink& sink, const StopSignal& stop, TrainerOptions options);
  /// Returns the signal that stopped it, or 0. Failures are exceptions; RunFinished is sent in every case.
  int run();
  /// Makes as many steps as the profiler's schedule has, with their records, instead of training. Evaluates and saves
  /// nothing.
  profiler::ProfileSummary profile();

 private:
  int train();
  void announce();
  /// False where a signal came before its last micro-batch: then nothing has changed.
  bool train_step();
  /// The step and its record, under the profiler if there is one.
  bool profiled_step();
  /// Begins and ends the profile that `profiler.start_step` asks for.
  void profile_in_training();
  bool handle_non_finite(const StepResult& result);
  void roll_back();
  void look_for_directory();
  /// Lists samples that were left out or replaced.
  void tell_bad_samples();
  void log();
  /// Whether the run has lasted long enough for measuring the device's peak not to count.
  bool is_worth_a_peak() const;
  void measure_peak_flops();
  runtime::MemoryUse memory() const;
  void evaluate_now();
  void save();
  /// What a run whose processes are killed goes on from, until the next checkpoint.
  void take_snapshot();
  checkpoint::CheckpointInfo checkpoint_info() const;
  /// Until the checkpoint is there for all ranks to read.
  void finish_saving();
  /// That this run, or another rank, was sent; or 0.
  int signal() const;
  /// What each rank's step took; called by all.
  void compare_memory();
  /// Throws where a run ends that has learnt nothing.
  void refuse_run_without_update() const;
  void start_watchdog();
  void summarize(tracking::Outcome outcome, const std::string& error);
  bool is_due(std::int64_t every) const { return every > 0 && run_.step % every == 0; }

  Run& run_;
  tracking::Sink& sink_;
  const StopSignal& stop_;
  StopSignal::Deferral deferral_;
  TrainerOptions options_;
  Step step_;
  checkpoint::Saver saver_;
  std::optional<checkpoint::NodeSnapshots> snapshots_;
  Throughput throughput_;
  DataStallMonitor data_stall_monitor_;
  StragglerMonitor straggler_monitor_;
  std::optional<RunProfile> profile_;
  std::optional<Watchdog> watchdog_;        // while it trains
  std::optional<Utilization> utilization_;  // from the first record on
  std::int64_t saved_step_ = -1;
  bool has_told_no_target_ = false;
  bool lacks_evaluation_ = false;  // the last one was broken off
  int signal_ = 0;                 // as of the last step, over all ranks
  std::optional<double> time_to_first_step_;
  std::chrono::steady_clock::time_point begin_;
  at::Tensor grad_norm_;           // of the last step that measured it
  runtime::MemoryUse memory_;      // as of the last step
  std::int64_t earlier_peak_ = 0;  // before the peak was last reset
  std::vector<tracking::RankMemory> memory_by_rank_;
};

}  // namespace trainctl::train
