// A training's steps under the profiler.
#include "core/text.h"
#include "train/loop/trainer.h"

namespace trainctl::train {

void Trainer::profile_in_training() {
  if (profile_ && profile_->is_over()) {
    const profiler::ProfileSummary summary =
        profile_->finish({.wait_cause = data_stall_monitor_.cause(), .workers = data_stall_monitor_.workers()});
    profile_.reset();
    sink_.on(tracking::Notice{tracking::Level::info, "a profile of " + core::format_count(summary.num_steps()) +
                                                         " steps is in " +
                                                         (options_.run_directory / "profile").string()});
    for (const profiler::Verdict& verdict : summary.verdicts)
      sink_.on(tracking::Notice{tracking::Level::info, "profile: " + verdict.what + ": " + verdict.evidence});
    throughput_.pause_done();
  }
  const std::optional<std::int64_t> from = run_.experiment.profiler.start_step;
  if (!from || run_.step + 1 != *from) return;
  profile_.emplace(run_, options_.run_directory, options_.config);
  throughput_.pause_done();
}

profiler::ProfileSummary Trainer::profile() {
  // Before the first step, so that no step has its cost; and no step is the run's last, which would be logged.
  measure_peak_flops();
  profile_.emplace(run_, options_.run_directory, options_.config);
  run_.length.total_steps = std::max(run_.length.total_steps, run_.step + profile_->num_steps() + 1);
  throughput_.start();
  for (std::int64_t done = 1; !profile_->is_over() && signal() == 0; ++done) {
    if (!profiled_step()) break;
    sink_.on(tracking::Progress{.step = run_.step, .phase = "profile", .done = done, .total = profile_->num_steps()});
  }
  data_stall_monitor_.take_window(throughput_.take_window().total_ms);
  return profile_->finish({.wait_cause = data_stall_monitor_.cause(), .workers = data_stall_monitor_.workers()});
}

}  // namespace trainctl::train
