// The figures of a run: the speed, waits, memory and ranks that its log records and its summary report.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include "profiler/profiler.h"
#include "tracking/event.h"
#include "train/monitor/data_stall_monitor.h"
#include "train/monitor/memory_monitor.h"
#include "train/monitor/mfu.h"
#include "train/monitor/step_result.h"
#include "train/monitor/straggler_monitor.h"
#include "train/monitor/throughput.h"
#include "train/run/run.h"

namespace trainctl::train {

class RunMonitor {
 public:
  /// `process_start`: from which the time to the first step counts. `run` and `sink` outlive it.
  RunMonitor(Run& run, tracking::Sink& sink, std::filesystem::path run_directory,
             std::chrono::steady_clock::time_point process_start);

  /// Begins to count, before the first step.
  void start() { throughput_.start(); }
  /// Watches an update. Waits for the device if it is the first one.
  void step_done(const StepResult& result);
  /// Counts the time and the work of an update that was not rolled back.
  void count_step(const StepResult& result);
  /// The time since the last step or pause belongs to no step.
  void pause_done() { throughput_.pause_done(); }
  /// Sends the record of the steps since the last call, and notices about them. All ranks call it.
  void log(const StepResult& last);
  /// Lists samples that were left out or replaced since the last call.
  void report_bad_samples();
  /// Returns what sends a record of each batch, for Step::on_batch; empty if the config asks for none.
  std::function<void(const dataset::Batch&)> batch_logger();
  /// Returns what sends a record of weights and gradients, for Step::on_gradients; empty if this rank sends none.
  std::function<void()> parameter_logger();

  /// Whether the MFU lacks the device's peak, and the run has lasted long enough for measuring it not to count.
  bool lacks_peak_flops() const;
  /// Measures the device's peak. The time and the memory are no part of training.
  void measure_peak_flops();
  /// Compares the memory of all ranks, which all call it.
  void compare_memory() { memory_by_rank_ = memory_.gather(run_.mesh->world()); }

  /// Ends the current window without a record.
  void end_window() { data_stall_.take_window(throughput_.take_window().total_ms); }
  /// Returns the waits for data over all windows.
  profiler::DataSummary data_summary() const {
    return {.wait_cause = data_stall_.cause(), .workers = data_stall_.workers()};
  }
  /// Sets the fields of the summary that are figures.
  void summarize(tracking::RunFinished& summary) const;

 private:
  /// Reads the mean loss since the last record at the first step, then once a second, since a read waits for the
  /// device.
  std::optional<double> read_loss_at_times();

  Run& run_;
  tracking::Sink& sink_;
  std::filesystem::path run_directory_;
  std::chrono::steady_clock::time_point process_start_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Throughput throughput_;
  DataStallMonitor data_stall_;
  StragglerMonitor straggler_;
  MemoryMonitor memory_;
  std::vector<tracking::RankMemory> memory_by_rank_;  // once it is compared
  std::optional<Utilization> utilization_;            // once the peak is measured
  std::optional<double> time_to_first_step_;
  std::chrono::steady_clock::time_point next_loss_read_ = {};
  bool has_reported_no_target_ = false;
};

}  // namespace trainctl::train
