#include "train/loop/trainer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "core/units.h"
#include "dataset/loader/bad_samples.h"
#include "runtime/device.h"
#include "runtime/span.h"
#include "train/loop/diagnose.h"
#include "train/run/provenance.h"
#include "train/run/restore.h"

namespace trainctl::train {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Trainer::Trainer(Run& run, tracking::Sink& sink, const StopSignal& stop, TrainerOptions options)
    : run_(run),
      sink_(sink),
      stop_(stop),
      deferral_(run.step),
      options_(std::move(options)),
      step_(run),
      saver_(options_.run_directory / "checkpoints", run.experiment.checkpoint, &run.parallel->group()),
      data_stall_monitor_(*run.data.train),
      straggler_monitor_(run.parallel->group()),
      begin_(std::chrono::steady_clock::now()) {
  if (run.experiment.tracking.log_sample_ids)
    step_.on_batch = [this](const dataset::Batch& batch) {
      if (batch.size() > 0)
        sink_.on(tracking::BatchTaken{run_.step + 1, batch.epoch, batch.first_sample, batch.size()});
    };
  if (const std::optional<checkpoint::SnapshotConfig>& snapshot = run.experiment.checkpoint.in_memory) {
    snapshots_.emplace(checkpoint::snapshot_directory(*snapshot, options_.run_directory), run.step,
                       run.parallel->group());
    snapshots_->on_failure = [this](const std::string& what) {
      sink_.on(tracking::Notice{tracking::Level::warning, what});
    };
  }
  saver_.on_failed = [this](const std::string& what) {
    sink_.on(tracking::Notice{tracking::Level::warning,
                              what + "; training goes on, and tries again at the next checkpoint"});
  };
  saver_.on_saved = [this](std::int64_t step, const std::filesystem::path& path, double seconds) {
    if (run_.parallel->group().size() == 1) deferral_.step_saved(step);  // else the others need this rank for theirs
    sink_.on(tracking::CheckpointSaved{step, path.string(), seconds});
  };
}

int Trainer::run() {
  try {
    const int signal = train();
    summarize(signal == 0 ? tracking::Outcome::finished : tracking::Outcome::stopped, "");
    return signal;
  } catch (const std::exception& error) {
    summarize(tracking::Outcome::failed, options_.explain ? options_.explain(error) : core::as_error(error).what());
    throw;
  }
}

int Trainer::train() {
  saved_step_ = run_.step;
  announce();
  const TrainConfig& config = run_.experiment.train;
  throughput_.start();
  if (options_.on_step) options_.on_step(run_.step);
  start_watchdog();
  const bool was_complete = run_.step == run_.length.total_steps;
  if (was_complete && run_.data.eval && run_.evaluated_step != run_.step) evaluate_now();  // a signal ended it early
  while (run_.step < run_.length.total_steps && signal() == 0) {
    profile_in_training();
    if (!profiled_step()) break;
    const bool is_last = run_.step == run_.length.total_steps;
    if (run_.data.eval && (is_due(config.eval_every) || is_last)) evaluate_now();
    if (is_due(run_.experiment.checkpoint.every) || is_last) save();
    take_snapshot();
  }
  watchdog_.reset();
  look_for_directory();
  save();
  profile_in_training();
  finish_saving();
  if (snapshots_) snapshots_->remove();
  compare_memory();
  refuse_run_without_update();
  return run_.step < run_.length.total_steps || lacks_evaluation_ ? signal() : 0;
}

void Trainer::refuse_run_without_update() const {
  const auto num_skipped = static_cast<std::int64_t>(run_.num_skipped.item<double>());
  if (run_.step == 0 || num_skipped < run_.step || run_.step < run_.length.total_steps) return;
  throw core::Error(
      "none of the " + core::format_count(run_.step) +
      " steps changed the weights: each was skipped, for an overflow, a loss that isn't finite, or no target")
      .hint("train for more steps, or lower amp.loss_scaling.init_scale or optimizer.lr; do the samples have targets?");
}

/// What it has to say goes past the sinks: these belong to the thread that hangs.
void Trainer::start_watchdog() {
  const std::int64_t rank = run_.parallel->group().rank();
  watchdog_.emplace(run_.experiment.train.watchdog, WatchdogOptions{.run_directory = options_.run_directory,
                                                                    .rank = rank,
                                                                    .tell_ranks = options_.tell_doing,
                                                                    .compare = options_.compare_hang,
                                                                    .tell = [rank](const std::string& line) {
                                                                      std::fprintf(stderr, "\nwarning: rank %lld: %s\n",
                                                                                   static_cast<long long>(rank),
                                                                                   line.c_str());
                                                                    }});
}

bool Trainer::is_worth_a_peak() const {
  constexpr double kMostSecondsWithoutMfu = 1;
  return seconds_since(options_.process_start) - time_to_first_step_.value_or(0) >= kMostSecondsWithoutMfu;
}

/// The products that are timed are no part of what training takes.
void Trainer::measure_peak_flops() {
  const Watchdog::Pause not_a_hang(watchdog_);
  earlier_peak_ = memory().peak;
  utilization_.emplace(run_);
  runtime::reset_device_peak(run_.device);
}

runtime::MemoryUse Trainer::memory() const {
  runtime::MemoryUse use = runtime::device_memory(run_.device);
  use.peak = std::max(use.peak, earlier_peak_);
  return use;
}

bool Trainer::profiled_step() {
  if (profile_) profile_->step_begins();
  if (!train_step()) return false;
  if (watchdog_) watchdog_->step_done(run_.step);
  memory_ = memory();
  if (options_.on_step) options_.on_step(run_.step);
  if (is_due(run_.experiment.train.log_every) || run_.step == run_.length.total_steps) log();
  if (profile_) profile_->step_ends();
  return true;
}

int Trainer::signal() const {
  return run_.parallel->group().size() == 1 ? stop_.received() : signal_;
}

bool Trainer::train_step() {
  const std::int64_t number = run_.step + 1;
  const bool logs = number % run_.experiment.train.log_every == 0 || number == run_.length.total_steps;
  const StepResult result =
      step_(logs ? GradNorm::measure : GradNorm::only_to_clip, [this] { return stop_.received(); });
  signal_ = result.signal;
  if (result.is_abandoned) return false;
  deferral_.step_made(run_.step);
  grad_norm_ = result.grad_norm;
  if (result.count == 0 && !std::exchange(has_told_no_target_, true))
    sink_.on(tracking::Notice{tracking::Level::warning,
                              "no sample of step " + core::format_count(number) +
                                  " has a target, so there is no loss: its update is skipped, and so are those of "
                                  "later steps without one"});
  if (!time_to_first_step_) {
    runtime::synchronize(run_.device);
    time_to_first_step_ = seconds_since(options_.process_start);
  }
  // Reading the flag waits for the device: on a GPU only when a record or a checkpoint waits anyway.
  if ((run_.device.is_cpu() || logs || is_due(run_.experiment.checkpoint.every)) && !handle_non_finite(result))
    return true;
  throughput_.step_done(result.work, result.data_wait_ms);
  data_stall_monitor_.step_done(result.copy_ms);
  sink_.on(
      tracking::Progress{.step = run_.step, .phase = "train", .done = run_.step, .total = run_.length.total_steps});
  return true;
}

bool Trainer::handle_non_finite(const StepResult& result) {
  if (result.non_finite.item<float>() == 0) return true;
  const NonFinite policy = run_.experiment.train.on_non_finite;
  const std::string what = "the loss or its gradient is not finite at step " + core::format_count(run_.step);
  if (policy == NonFinite::skip) {
    sink_.on(tracking::Notice{tracking::Level::warning, what + "; its update is skipped"});
    return true;
  }
  const std::string where = first_non_finite(run_, step_);
  if (policy == NonFinite::stop || run_.num_rollbacks == run_.experiment.train.max_rollbacks)
    throw core::Error(what + ": first in " + where)
        .hint(policy == NonFinite::stop
                  ? "lower optimizer.lr, set optimizer.clip_norm, or choose train.on_non_finite: skip or rollback"
                  : "train.max_rollbacks is reached; lower optimizer.lr or set optimizer.clip_norm");
  sink_.on(tracking::Notice{tracking::Level::warning, what + ": first in " + where});
  roll_back();
  return false;
}

void Trainer::roll_back() {
  const Watchdog::Pause not_a_hang(watchdog_);
  finish_saving();
  std::vector<ResumePoint> points;
  for (const checkpoint::Found& found : checkpoint::find_complete(options_.run_directory / "checkpoints"))
    points.push_back({.step_directory = found.path, .step = found.step});
  if (points.empty())
    throw core::Error("no checkpoint to roll back to").hint("set checkpoint.every to a smaller number of steps");
  const dataset::Position after_the_bad_batch = run_.data.train->position();
  const std::int64_t rollbacks = run_.num_rollbacks + 1;
  restore_first(run_, points, options_.config, sink_);
  saved_step_ = run_.step;
  run_.num_rollbacks = rollbacks;
  run_.next_sample = after_the_bad_batch;
  run_.data.train->seek(after_the_bad_batch);
  sink_.on(tracking::Notice{tracking::Level::warning, "rolled back to step " + core::format_count(run_.step) +
                                                          "; it goes on with the data after the bad batch"});
  throughput_.pause_done();
}

void Trainer::announce() {
  sink_.on(tracking::RunStarted{.name = run_.experiment.name,
                                .run_directory = options_.run_directory.string(),
                                .total_steps = run_.length.total_steps,
                                .first_step = run_.step,
                                .num_samples = run_.data.train->num_samples(),
                                .num_classes = run_.data.train->spec().num_classes,
                                .num_parameters = model::num_parameters(*run_.model),
                                .device = runtime::describe(run_.device)});
}

void Trainer::tell_bad_samples() {
  if (!run_.data.bad_samples) return;
  const std::vector<dataset::BadSampleReport> reports = run_.data.bad_samples->take();
  if (reports.empty()) return;
  const std::filesystem::path path = options_.run_directory / "bad_samples.jsonl";
  std::ofstream file(path, std::ios::app);
  for (const dataset::BadSampleReport& report : reports)
    file << nlohmann::json{{"step", run_.step}, {"sample", report.index}, {"problem", report.what}}.dump() << "\n";
  file.close();
  if (!file) throw core::system_error("cannot write", path.string());
  sink_.on(tracking::Notice{tracking::Level::warning, core::format_count(run_.data.bad_samples->count()) +
                                                          " bad samples so far; " + path.string() +
                                                          " lists them; the first of these: " + reports.front().what});
}

void Trainer::look_for_directory() {
  if (!options_.renew_directory || !options_.renew_directory()) return;
  sink_.on(tracking::Notice{tracking::Level::warning,
                            options_.run_directory.string() +
                                " was removed or moved while the run writes to it: it is made anew, without the "
                                "records and checkpoints up to step " +
                                core::format_count(run_.step)});
}

void Trainer::log() {
  const runtime::Span span("log");
  look_for_directory();
  tell_bad_samples();
  const Throughput::Window pace = throughput_.take_window();
  if (const std::optional<std::string> wait = data_stall_monitor_.take_window(pace.total_ms))
    sink_.on(tracking::Notice{tracking::Level::warning, *wait});
  if (const std::optional<std::string> growth = data_stall_monitor_.take_growth())
    sink_.on(tracking::Notice{tracking::Level::info, *growth});
  const double num_targets = run_.window[1].item<double>();
  tracking::StepLogged record;
  record.step = run_.step;
  record.epoch = (run_.step - 1) / run_.length.steps_per_epoch;
  if (num_targets > 0) record.loss = run_.window[0].item<double>() / num_targets;
  record.lr = run_.lr_of_step(run_.step);
  if (grad_norm_.defined()) record.grad_norm = grad_norm_.item<double>();
  if (run_.scaler.is_active()) record.loss_scale = run_.scaler.current_scale();
  record.samples_per_s = pace.samples_per_s;
  record.tokens_per_s = pace.tokens_per_s;
  record.step_ms = pace.step_ms;
  record.data_wait_ms = pace.data_wait_ms;
  const StragglerMonitor::Window ranks = straggler_monitor_.take_window(pace);
  if (ranks.straggler) sink_.on(tracking::Notice{tracking::Level::warning, *ranks.straggler});
  if (ranks.communication_ms > 0) {
    record.communication_ms = ranks.communication_ms;
    record.exposed_communication_ms = ranks.exposed_ms;
  }
  if (!utilization_ && is_worth_a_peak()) {
    measure_peak_flops();
    throughput_.pause_done();
  }
  if (utilization_) record.mfu = utilization_->mfu(pace);
  record.memory_mib = static_cast<double>(memory().peak) / core::kMiB;
  record.num_skipped = static_cast<std::int64_t>(run_.num_skipped.item<double>());
  run_.window.zero_();
  sink_.on(record);
}

void Trainer::evaluate_now() {
  const Watchdog::Pause not_a_hang(watchdog_);
  run_.parallel->share_buffers();
  EvaluationResult result = evaluate(run_, sink_, [this] { return stop_.received(); });
  lacks_evaluation_ = result.signal != 0;
  if (lacks_evaluation_) {
    signal_ = result.signal;
    return;
  }
  run_.evaluated_step = run_.step;
  run_.metrics = std::move(result.metrics);
  if (run_.metrics.empty())
    sink_.on(tracking::Notice{tracking::Level::warning,
                              "no sample of the evaluation set has a target, so there are no metrics"});
  sink_.on(tracking::Evaluated{
      .step = run_.step, .metrics = run_.metrics, .details = std::move(result.details), .seconds = result.seconds});
  if (run_.plateau)
    if (const std::optional<double> watched = find_metric(
            run_.metrics,
            run_.experiment.optimizer.lr_scheduler.shape.get_if<optimizer::PlateauScheduleConfig>()->metric))
      run_.plateau->observe(*watched);
  if (run_.best.observe(run_.metrics, run_.step) && run_.experiment.checkpoint.best) save();
  throughput_.pause_done();
}

void Trainer::save() {
  const Watchdog::Pause not_a_hang(watchdog_);
  if (saved_step_ == run_.step || run_.step == 0) return;
  run_.parallel->share_buffers();
  checkpoint::ShownState state;
  run_.visit_state(state);
  saver_.save(state, checkpoint_info());
  saved_step_ = run_.step;
  throughput_.pause_done();
}

void Trainer::take_snapshot() {
  const Watchdog::Pause not_a_hang(watchdog_);
  if (!snapshots_ || !is_due(run_.experiment.checkpoint.in_memory->every) || saved_step_ == run_.step) return;
  run_.parallel->share_buffers();
  checkpoint::ShownState state;
  run_.visit_state(state);
  snapshots_->save(state, checkpoint_info());
  throughput_.pause_done();
}

checkpoint::CheckpointInfo Trainer::checkpoint_info() const {
  checkpoint::CheckpointInfo info{.step = run_.step,
                                  .config = options_.config,
                                  .metrics = {},
                                  .data_fingerprint = run_.data.fingerprint,
                                  .global_batch = run_.global_batch};
  if (run_.evaluated_step == run_.step) info.metrics.insert(run_.metrics.begin(), run_.metrics.end());
  return info;
}

void Trainer::finish_saving() {
  const Watchdog::Pause not_a_hang(watchdog_);
  saver_.finish();
}

void Trainer::compare_memory() {
  comm::Group& group = run_.parallel->group();
  const at::Tensor mine = at::empty({2}, at::kDouble);
  const at::Tensor all = at::empty({2 * group.size()}, at::kDouble);
  mine[0].fill_(static_cast<double>(memory_.peak) / core::kMiB);
  mine[1].fill_(static_cast<double>(memory_.current) / core::kMiB);
  group.all_gather(all, mine)->wait();
  for (std::int64_t rank = 0; rank < group.size(); ++rank)
    memory_by_rank_.push_back(
        {.peak_mib = all[2 * rank].item<double>(), .allocated_mib = all[2 * rank + 1].item<double>()});
}

void Trainer::summarize(tracking::Outcome outcome, const std::string& error) {
  tell_bad_samples();
  const Throughput::Summary pace = throughput_.summary();
  sink_.on(tracking::RunFinished{.outcome = outcome,
                                 .error = error,
                                 .steps = run_.step,
                                 .final_metrics = run_.metrics,
                                 .best_metrics = run_.best.metrics(),
                                 .best_step = run_.best.step(),
                                 .wall_s = seconds_since(begin_),
                                 .time_to_first_step_s = time_to_first_step_.value_or(0),
                                 .median_step_ms = pace.median_step_ms,
                                 .samples_per_s = pace.samples_per_s,
                                 .tokens_per_s = pace.tokens_per_s,
                                 .data_wait_share = pace.data_wait_share,
                                 .data_wait_cause = data_stall_monitor_.cause(),
                                 .data_workers = data_stall_monitor_.workers(),
                                 .peak_memory_mib = static_cast<double>(memory().peak) / core::kMiB,
                                 .memory_by_rank = memory_by_rank_,
                                 .num_parameters = model::num_parameters(*run_.model),
                                 .num_skipped = static_cast<std::int64_t>(run_.num_skipped.item<double>()),
                                 .provenance = provenance(run_, options_.config)});
}

}  // namespace trainctl::train
