#include "train/monitor/run_monitor.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "dataset/loader/bad_samples.h"
#include "runtime/device.h"
#include "train/monitor/parameter_histograms.h"

namespace trainctl::train {
namespace {

std::filesystem::path list_of_bad_samples(const std::filesystem::path& run_directory) {
  return run_directory / "bad_samples.jsonl";
}

/// Counts the samples that earlier processes of this rank have listed: dataset.max_bad_samples is for the whole run.
void count_listed_samples(const std::filesystem::path& run_directory, std::int64_t rank, dataset::BadSampleLog& log) {
  std::ifstream file(list_of_bad_samples(run_directory));
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json listed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool is_whole = listed.is_object() && listed.contains("sample") && listed["sample"].is_number_integer() &&
                          listed.contains("problem") && listed["problem"].is_string();
    const bool is_own = is_whole && (!listed.contains("rank") || listed["rank"] == rank);
    if (is_own) log.add_known({listed["sample"].get<std::int64_t>(), listed["problem"].get<std::string>()});
  }
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

RunMonitor::RunMonitor(Run& run, tracking::Sink& sink, std::filesystem::path run_directory,
                       std::chrono::steady_clock::time_point process_start)
    : run_(run),
      sink_(sink),
      run_directory_(std::move(run_directory)),
      process_start_(process_start),
      data_stall_(*run.data.train),
      straggler_(run.mesh->world(), run.mesh->place(comm::Axis::pipeline)),
      memory_(run.device) {
  if (run.step > 0 && run.data.bad_samples)
    count_listed_samples(run_directory_, run.mesh->world().rank(), *run.data.bad_samples);
}

void RunMonitor::step_done(const StepResult& result) {
  memory_.step_done();
  if (result.count == 0 && !std::exchange(has_reported_no_target_, true))
    sink_.on(tracking::Notice{tracking::Level::warning,
                              "no sample of step " + core::format_count(run_.step) +
                                  " has a target, so there is no loss: its update is skipped, and so are those of "
                                  "later steps without one"});
  if (time_to_first_step_) return;
  runtime::synchronize(run_.device);
  time_to_first_step_ = seconds_since(process_start_);
}

void RunMonitor::count_step(const StepResult& result) {
  throughput_.step_done(result.work, result.data_wait_ms);
  data_stall_.step_done(result.copy_ms);
  sink_.on(tracking::Progress{.step = run_.step,
                              .phase = "train",
                              .done = run_.step,
                              .total = run_.length.total_steps,
                              .loss = read_loss_at_times()});
}

std::optional<double> RunMonitor::read_loss_at_times() {
  constexpr std::chrono::seconds kBetweenReads{1};
  const auto now = std::chrono::steady_clock::now();
  if (!run_.is_first() || now < next_loss_read_) return std::nullopt;
  next_loss_read_ = now + kBetweenReads;
  const double num_targets = run_.window[1].item<double>();
  if (num_targets <= 0) return std::nullopt;
  return run_.window[0].item<double>() / num_targets;
}

void RunMonitor::log(const StepResult& last) {
  report_bad_samples();
  const Throughput::Window pace = throughput_.take_window();
  if (const std::optional<std::string> wait = data_stall_.take_window(pace.total_ms))
    sink_.on(tracking::Notice{tracking::Level::warning, *wait});
  if (const std::optional<std::string> growth = data_stall_.take_growth())
    sink_.on(tracking::Notice{tracking::Level::info, *growth});
  const double num_targets = run_.window[1].item<double>();
  tracking::StepLogged record;
  record.step = run_.step;
  record.epoch = (run_.step - 1 + run_.schedule_offset) / run_.length.steps_per_epoch;
  if (num_targets > 0) record.loss = run_.window[0].item<double>() / num_targets;
  record.lr = run_.lr_of_step(run_.step);
  if (last.grad_norm.defined()) record.grad_norm = last.grad_norm.item<double>();
  if (run_.scaler.is_active()) record.loss_scale = run_.scaler.current_scale();
  record.samples_per_s = pace.samples_per_s;
  record.tokens_per_s = pace.tokens_per_s;
  record.step_ms = pace.step_ms;
  record.data_wait_ms = pace.data_wait_ms;
  const StragglerMonitor::Window ranks = straggler_.take_window(pace);
  if (ranks.straggler) sink_.on(tracking::Notice{tracking::Level::warning, *ranks.straggler});
  if (ranks.communication_ms > 0) {
    record.communication_ms = ranks.communication_ms;
    record.exposed_communication_ms = ranks.exposed_ms;
  }
  if (utilization_) record.mfu = utilization_->mfu(pace);
  record.memory_mib = memory_.peak_mib();
  record.num_skipped = static_cast<std::int64_t>(run_.num_skipped.item<double>());
  run_.window.zero_();
  sink_.on(record);
}

void RunMonitor::report_bad_samples() {
  if (!run_.data.bad_samples) return;
  const std::vector<dataset::BadSampleReport> reports = run_.data.bad_samples->take();
  if (reports.empty()) return;
  const std::filesystem::path path = list_of_bad_samples(run_directory_);
  std::string lines;
  for (const dataset::BadSampleReport& report : reports)
    lines += nlohmann::json{{"step", run_.step},
                            {"rank", run_.mesh->world().rank()},
                            {"sample", report.index},
                            {"problem", report.what}}
                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
             "\n";
  std::ofstream file(path, std::ios::app);
  file << lines << std::flush;
  if (!file)  // a list of samples is no reason to lose a run
    sink_.on(tracking::Notice{tracking::Level::warning, core::system_error("write", path.string()).what()});
  sink_.on(tracking::Notice{tracking::Level::warning, core::format_count(run_.data.bad_samples->count()) +
                                                          " bad samples so far; " + path.string() +
                                                          " lists them; the first of these: " + reports.front().what});
}

std::function<void(const dataset::Batch&)> RunMonitor::batch_logger() {
  if (!run_.experiment.tracking.log_sample_ids) return {};
  return [this](const dataset::Batch& batch) {
    if (batch.size() > 0) sink_.on(tracking::BatchTaken{run_.step + 1, batch.epoch, batch.first_sample, batch.size()});
  };
}

std::function<void()> RunMonitor::parameter_logger() {
  const std::int64_t every = run_.experiment.tracking.histogram_every;
  if (every == 0 || !run_.is_first()) return {};
  return [this, every] {
    if ((run_.step + 1) % every == 0) sink_.on(measure_parameters(run_.step + 1, run_.parameters));
  };
}

bool RunMonitor::lacks_peak_flops() const {
  constexpr double kMaxSecondsWithoutMfu = 1;
  if (run_.model->flops_per_sample() == 0) return false;  // nobody knows what the model would need of the peak
  return !utilization_ && seconds_since(process_start_) - time_to_first_step_.value_or(0) >= kMaxSecondsWithoutMfu;
}

void RunMonitor::measure_peak_flops() {
  const runtime::MemoryUse before = memory_.now();
  utilization_.emplace(run_);
  memory_.reset_peak(before);
}

void RunMonitor::summarize(tracking::RunFinished& summary) const {
  const Throughput::Summary pace = throughput_.summary();
  summary.wall_s = seconds_since(begin_);
  summary.time_to_first_step_s = time_to_first_step_.value_or(0);
  summary.median_step_ms = pace.median_step_ms;
  summary.samples_per_s = pace.samples_per_s;
  summary.tokens_per_s = pace.tokens_per_s;
  summary.data_wait_share = pace.data_wait_share;
  summary.data_wait_cause = data_stall_.cause();
  summary.data_workers = data_stall_.workers();
  summary.peak_memory_mib = memory_.peak_mib();
  summary.memory_by_rank = memory_by_rank_;
}

}  // namespace trainctl::train
