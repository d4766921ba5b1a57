#include "train/profile.h"

#include "runtime/device.h"
#include "train/step.h"

namespace trainctl {

ProfileSummary profile(Run& run, Profiler& profiler, Sink& sink) {
  Step step(run);
  const std::int64_t num_steps = profiler.num_steps();
  for (std::int64_t done = 0; done < num_steps; ++done) {
    profiler.step_begins();
    step(GradNorm::only_to_clip);
    synchronize(run.device);
    profiler.step_ends();
    sink.on(Progress{.step = run.step, .phase = "profile", .done = done + 1, .total = num_steps});
  }
  return profiler.summary();
}

}  // namespace trainctl
