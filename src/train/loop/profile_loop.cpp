#include "train/loop/profile_loop.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "runtime/span.h"
#include "train/loop/non_finite.h"

namespace trainctl::train {

profiler::ProfileSummary profile_steps(Run& run, tracking::Sink& sink, const StopSignal& stop,
                                       const TrainerOptions& options) {
  StopSignal::Deferral deferral(run.step);
  if (std::exchange(run.experiment.train.graph, Graph::none) != Graph::none)
    sink.on(tracking::Notice{tracking::Level::info,
                             "profiling without train.graph: a recorded step shows no operators, and what it saves is "
                             "the time in which the device waits for them"});
  Step step(run);
  NonFiniteSteps non_finite;
  RunMonitor monitor(run, sink, options.run_directory, options.process_start);
  step.on_batch = monitor.batch_logger();
  // Before the first step, so that no step has its cost; and no step is the run's last, which would be logged.
  monitor.measure_peak_flops();
  RunProfile profile(run, options.run_directory, options.config);
  run.length.total_steps = std::max(run.length.total_steps, run.step + profile.num_steps() + 1);
  monitor.start();
  int signal = stop.received();
  for (std::int64_t done = 1; !profile.is_over() && signal == 0; ++done) {
    profile.step_begins();
    const bool logs = (run.step + 1) % run.experiment.train.log_every == 0;
    const StepResult result = step(logs ? GradNorm::measure : GradNorm::only_to_clip, [&] { return stop.received(); });
    if (result.is_abandoned) break;
    deferral.step_made(run.step);
    monitor.step_done(result);
    non_finite.add(result);
    if ((run.device.is_cpu() || logs) &&
        handle_non_finite(run, step, non_finite.take(), sink) == AfterNonFinite::roll_back)
      throw core::Error("cannot roll back while profiling").hint("choose train.on_non_finite: skip or stop");
    monitor.count_step(result);
    if (options.on_step) options.on_step(run.step);
    if (logs) {
      const runtime::Span span("log");
      monitor.log(result);
    }
    profile.step_ends();
    sink.on(tracking::Progress{.step = run.step, .phase = "profile", .done = done, .total = profile.num_steps()});
    signal = run.mesh->world().size() == 1 ? stop.received() : result.signal;
  }
  monitor.end_window();
  return profile.finish(monitor.data_summary());
}

}  // namespace trainctl::train
