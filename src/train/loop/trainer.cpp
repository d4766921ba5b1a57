#include "train/loop/trainer.h"

#include "config/field.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "runtime/device.h"
#include "runtime/span.h"
#include "train/loop/evaluate.h"
#include "train/loop/loss_spike.h"
#include "train/run/provenance.h"

namespace trainctl::train {

class Trainer::Pause {
 public:
  explicit Pause(Trainer& trainer) : not_a_hang_(trainer.watchdog_), monitor_(trainer.monitor_) {}
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
  ~Pause() { monitor_.pause_done(); }

 private:
  Watchdog::Pause not_a_hang_;
  RunMonitor& monitor_;
};

Trainer::Trainer(Run& run, tracking::Sink& sink, const StopSignal& stop, TrainerOptions options)
    : run_(run),
      sink_(sink),
      stop_(stop),
      options_(std::move(options)),
      deferral_(run.step,
                run.is_first() ? StopSignal::Acknowledgement::on_terminal : StopSignal::Acknowledgement::none),
      step_(run),
      checkpointer_(run, sink, deferral_, options_.run_directory, options_.config),
      monitor_(run, sink, options_.run_directory, options_.process_start) {
  step_.on_batch = monitor_.batch_logger();
  step_.on_gradients = monitor_.parameter_logger();
  if (run.data.eval) predictions_.emplace(run.data.eval->spec(), sink, options_.show_sample);
}

int Trainer::run() {
  try {
    start();
    while (run_.step < run_.length.total_steps && !is_stopped_early() && signal() == 0) {
      update_profile();
      const StepEnd end = train_step();
      if (end == StepEnd::abandoned) break;
      if (end == StepEnd::rolled_back) continue;  // what is due at that step was done before
      const bool evaluates = is_evaluation_due();
      const bool saves = is_due(run_.experiment.checkpoint.every) || is_last_step();
      if (!evaluates && !saves && !checkpointer_.is_snapshot_due()) continue;
      const Pause pause(*this);
      if (evaluates) evaluate();
      if (saves) checkpointer_.save();
      checkpointer_.take_snapshot();
    }
    watchdog_.reset();
    check_run_directory();
    checkpointer_.save(checkpoint::Writing::at_once);
    update_profile();
    checkpointer_.close();
    monitor_.compare_memory();
    refuse_run_without_update();
    const bool is_complete = run_.step == run_.length.total_steps || is_stopped_early();
    const int ended_by = !is_complete || lacks_evaluation_ ? signal() : 0;
    finish(ended_by == 0 ? tracking::Outcome::finished : tracking::Outcome::stopped, "");
    return ended_by;
  } catch (const std::exception& error) {
    finish(tracking::Outcome::failed, options_.explain ? options_.explain(error) : core::as_error(error).what());
    throw;
  }
}

void Trainer::start() {
  sink_.on(tracking::RunStarted{
      .name = run_.experiment.name,
      .run_directory = options_.run_directory.string(),
      .total_steps = run_.length.total_steps,
      .first_step = run_.step,
      .num_samples = run_.data.train->num_samples(),
      .num_classes = run_.data.train->spec().num_classes,
      .num_eval_samples = run_.data.eval ? run_.data.eval->num_samples() : 0,
      .batch_size = run_.global_batch,
      .steps_per_epoch = run_.length.steps_per_epoch,
      .schedule_offset = run_.schedule_offset,
      .num_parameters = run_.num_parameters,
      .model = std::string(run_.experiment.model.network.kind()),
      .precision = std::string(config::name_of(run_.experiment.amp.mode)),
      .device = runtime::describe(run_.device),
      .is_on_gpu = run_.device.is_cuda(),
      .report = run_.experiment.tracking.report ? (options_.run_directory / "report.html").string() : "",
      .next_command = options_.next_command,
      .resume_command = options_.resume_command});
  monitor_.start();
  if (options_.on_step) options_.on_step(run_.step);
  const std::int64_t rank = run_.mesh->world().rank();
  // Its lines go past the sinks, which belong to the thread that hangs.
  const auto print = [rank](const std::string& line) {
    core::log().info("");  // ends a progress bar's line
    core::log().warning("rank " + std::to_string(rank) + ": " + line);
  };
  watchdog_.emplace(run_.experiment.train.watchdog, WatchdogOptions{.run_directory = options_.run_directory,
                                                                    .rank = rank,
                                                                    .tell_ranks = options_.tell_doing,
                                                                    .compare = options_.diagnose_stall,
                                                                    .tell = print});
  // A rollback to a checkpoint without this state would keep what the bad steps have made of it.
  if (run_.has_new_state && may_roll_back()) checkpointer_.save_again();
  if (run_.step == 0 || !is_evaluation_due() || run_.evaluated_step == run_.step) return tell_early_stop();
  const Pause pause(*this);  // a signal broke the evaluation off, or came before it
  evaluate();
  if (!lacks_evaluation_) checkpointer_.save_again();
}

Trainer::StepEnd Trainer::train_step() {
  if (profile_) profile_->step_begins();
  const std::int64_t number = run_.step + 1;
  const bool logs = number % run_.experiment.train.log_every == 0 || number == run_.length.total_steps;
  // A gradient that isn't finite is found by its norm; the loss may be finite.
  const bool skips = run_.experiment.train.on_non_finite != NonFinite::stop;
  const GradNorm norm = logs || skips || run_.loss_spikes ? GradNorm::measure : GradNorm::only_to_clip;
  const StepResult result = step_(norm, [this] { return stop_.received(); });
  signal_ = result.signal;
  if (result.is_abandoned) return StepEnd::abandoned;
  deferral_.step_made(run_.step);
  monitor_.step_done(result);
  // Reading the flag waits for the device: on a GPU only when a record or a checkpoint waits anyway.
  non_finite_.add(result);
  const bool reads_flag = run_.device.is_cpu() || logs || is_due(run_.experiment.checkpoint.every);
  const std::int64_t num_not_finite = reads_flag ? non_finite_.take() : 0;
  const bool goes_back =
      handle_non_finite(run_, step_, num_not_finite, sink_) == AfterNonFinite::roll_back ||
      handle_loss_spike(run_, result, sink_, options_.run_directory, checkpointer_) == AfterLossSpike::roll_back;
  if (goes_back) {
    const Pause pause(*this);
    checkpointer_.roll_back();
    monitor_.end_window();
  } else {
    monitor_.count_step(result);
  }
  watchdog_->step_done(run_.step);
  if (options_.on_step) options_.on_step(run_.step);
  if (!goes_back && (is_due(run_.experiment.train.log_every) || is_last_step())) log(result);
  if (profile_) profile_->step_ends();
  return goes_back ? StepEnd::rolled_back : StepEnd::made;
}

void Trainer::log(const StepResult& result) {
  const runtime::Span span("log");
  check_run_directory();
  if (monitor_.lacks_peak_flops()) {
    const Pause pause(*this);
    monitor_.measure_peak_flops();
  }
  monitor_.log(result);
}

void Trainer::evaluate() {
  run_.parallel->share_buffers();
  EvaluationResult result = train::evaluate(
      run_, sink_, [this] { return stop_.received(); }, run_.experiment.tracking.sample_predictions);
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
  const bool is_best = run_.best.observe(run_.metrics, run_.step);
  sink_.on(tracking::Evaluated{.step = run_.step,
                               .metrics = run_.metrics,
                               .details = std::move(result.details),
                               .seconds = result.seconds,
                               .best = run_.best.value()});
  predictions_->take(run_.step, std::move(result.examples));
  if (run_.plateau)
    if (const std::optional<double> watched = find_metric(run_.metrics, run_.plateau->metric()))
      run_.plateau->observe(*watched);
  if (run_.early_stopping) {
    run_.early_stopping->observe(run_.metrics);
    tell_early_stop();
  }
  if (is_best && run_.experiment.checkpoint.best) checkpointer_.save();
}

void Trainer::tell_early_stop() {
  if (is_stopped_early())
    sink_.on(tracking::Notice{tracking::Level::info, "stopping early at step " + core::format_count(run_.step) + ": " +
                                                         run_.early_stopping->reason()});
}

void Trainer::update_profile() {
  if (profile_ && profile_->is_over()) {
    const profiler::ProfileSummary summary = profile_->finish(monitor_.data_summary());
    profile_.reset();
    sink_.on(tracking::Notice{tracking::Level::info, "a profile of " + core::format_count(summary.num_steps()) +
                                                         " steps is in " +
                                                         (options_.run_directory / "profile").string()});
    for (const profiler::Finding& finding : summary.findings)
      sink_.on(tracking::Notice{tracking::Level::info, "profile: " + finding.what + ": " + finding.evidence});
    monitor_.pause_done();
  }
  const std::optional<std::int64_t> from = run_.experiment.profiler.start_step;
  if (!from || run_.step + 1 != *from) return;
  profile_.emplace(run_, options_.run_directory, options_.config);
  monitor_.pause_done();
}

void Trainer::check_run_directory() {
  if (!options_.renew_directory || !options_.renew_directory()) return;
  sink_.on(tracking::Notice{tracking::Level::warning,
                            options_.run_directory.string() +
                                " was removed or moved while the run writes to it: it is made anew, without the "
                                "records and checkpoints up to step " +
                                core::format_count(run_.step)});
}

void Trainer::refuse_run_without_update() const {
  const auto num_skipped = static_cast<std::int64_t>(run_.num_skipped.item<double>());
  const bool is_complete = run_.step == run_.length.total_steps || is_stopped_early();
  if (run_.step == 0 || num_skipped < run_.step || !is_complete) return;
  throw core::Error(
      "none of the " + core::format_count(run_.step) +
      " steps changed the weights: each was skipped, for an overflow, a loss that isn't finite, or no target")
      .hint("train for more steps, or lower amp.loss_scaling.init_scale or optimizer.lr; do the samples have targets?");
}

std::int64_t Trainer::num_skipped(tracking::Outcome outcome) const {
  try {
    return static_cast<std::int64_t>(run_.num_skipped.item<double>());
  } catch (const c10::Error&) {
    // A device that has failed answers nothing more. The error to tell is the first one.
    if (outcome != tracking::Outcome::failed) throw;
    return 0;
  }
}

void Trainer::finish(tracking::Outcome outcome, const std::string& error) {
  monitor_.report_bad_samples();
  if (predictions_) predictions_->flush();
  tracking::RunFinished summary{.outcome = outcome,
                                .error = error,
                                .steps = run_.step,
                                .final_metrics = run_.metrics,
                                .best_metrics = run_.best.metrics(),
                                .best_step = run_.best.step(),
                                .best = run_.best.value(),
                                .num_parameters = run_.num_parameters,
                                .num_skipped = num_skipped(outcome),
                                .provenance = provenance(run_, options_.config)};
  monitor_.summarize(summary);
  sink_.on(summary);
}

bool Trainer::is_evaluation_due() const {
  const TrainConfig& config = run_.experiment.train;
  return run_.data.eval && (is_due(eval_interval(config)) || (is_last_step() && evaluates_at_end(config)));
}

bool Trainer::may_roll_back() const {
  const TrainConfig& config = run_.experiment.train;
  return config.on_non_finite == NonFinite::rollback ||
         (config.loss_spikes && config.loss_spikes->action == SpikeAction::rollback);
}

bool Trainer::is_stopped_early() const {
  return run_.early_stopping && run_.early_stopping->is_over();
}

int Trainer::signal() const {
  return run_.mesh->world().size() == 1 ? stop_.received() : signal_;
}

}  // namespace trainctl::train
