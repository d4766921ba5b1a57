#include <memory>

#include "run_experiment.h"

namespace trainctl {

Action declare_profile(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  add_run_options(app, options->run);
  return [options] { return call_engine(engine_call("profile", options->experiment, options->run)); };
}

}  // namespace trainctl
