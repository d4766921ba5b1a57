#include "run_experiment.h"

#include <unistd.h>

#include "load_plugin.h"

namespace trainctl::cli {

EngineCall engine_call(EngineCommand command, const ExperimentOptions& experiment, const RunOptions& run) {
  const auto start = std::chrono::steady_clock::now();
  const Show show = run.log_level == "warning"                      ? Show::warnings
                    : run.no_progress || isatty(STDERR_FILENO) == 0 ? Show::lines
                                                                    : Show::progress;
  return {.command = std::move(command),
          .loaded = experiment::load_experiment(experiment.config, experiment.sets, load_plugin),
          .run_dir = run.run_dir,
          .show = show,
          .json = run.json,
          .process_start = start};
}

}  // namespace trainctl::cli
