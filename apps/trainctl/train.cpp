#include <memory>

#include "run_experiment.h"

namespace trainctl {

Action declare_train(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    std::string resume = "auto";
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  add_run_options(app, options->run);
  app.add_option("--resume", options->resume,
                 "auto: go on with an unfinished run of the same config; never; or a checkpoint")
      ->type_name("auto|never|PATH")
      ->capture_default_str();
  return [options] {
    EngineCall call = engine_call("train", options->experiment, options->run);
    call.resume = options->resume;
    return call_engine(call);
  };
}

}  // namespace trainctl
