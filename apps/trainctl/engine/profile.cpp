#include "train/profile.h"

#include <cstdio>

#include "engine.h"
#include "train/provenance.h"

namespace trainctl {

int run_profile(const EngineCall& call) {
  const LoadedExperiment& loaded = call.loaded;
  const std::string hash = config_hash(loaded.flat);
  const RunDirectory directory =
      choose_run_directory({loaded.experiment.name + "-profile", call.run_dir, "never", hash});
  describe_run_directory(directory.path, loaded.resolved_yaml, hash);

  std::vector<Notice> notices;
  const std::unique_ptr<Run> run = build(loaded.experiment, notices);
  TrackingConfig console_only;
  console_only.tensorboard = false;
  const std::unique_ptr<Tracker> tracker =
      build(console_only, TrackerOptions{.run_directory = directory.path, .console = console_of(call.show)});
  tell(*tracker, notices);
  const std::unique_ptr<Profiler> profiler = build(loaded.experiment.profiler, run->device, directory.path / "profile");
  const ProfileSummary summary = profile(*run, *profiler, *tracker);
  std::printf("%s\n", (call.json ? format_json(summary) : format_table(summary)).c_str());
  return 0;
}

}  // namespace trainctl
