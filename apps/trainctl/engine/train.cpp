#include <cstdio>

#include "core/file.h"
#include "engine.h"
#include "train/provenance.h"
#include "train/trainer.h"

namespace trainctl {

int run_train(const EngineCall& call) {
  const StopSignal stop;
  const LoadedExperiment& loaded = call.loaded;
  const std::string hash = config_hash(loaded.flat);
  const RunDirectory directory = choose_run_directory({loaded.experiment.name, call.run_dir, call.resume, hash});
  describe_run_directory(directory.path, loaded.resolved_yaml, hash);

  std::vector<Notice> notices;
  if (directory.notice) notices.push_back(*directory.notice);
  const std::unique_ptr<Run> run = build(loaded.experiment, notices);
  const std::unique_ptr<Tracker> tracker =
      build(loaded.experiment.tracking, TrackerOptions{.run_directory = directory.path,
                                                       .console = console_of(call.show),
                                                       .resumed = directory.resume_from.has_value(),
                                                       .first_step = step_of(directory.resume_from)});
  tell(*tracker, notices);
  Trainer trainer(*run, *tracker, stop, {directory.path, directory.resume_from, loaded.flat, call.process_start});
  const int signal = trainer.run();
  if (call.json) std::printf("%s\n", read_file(directory.path / "summary.json").c_str());
  return signal == 0 ? 0 : 128 + signal;
}

}  // namespace trainctl
