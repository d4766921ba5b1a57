#include <memory>

#include "local_ranks.h"
#include "run_experiment.h"

namespace trainctl::cli {

Action declare_train(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    TrainOptions train;
    std::int64_t num_ranks = 1;
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  add_run_options(app, options->run);
  app.add_option("--resume", options->train.resume,
                 "auto: continue an unfinished run of the same config; never; or a checkpoint")
      ->type_name("auto|never|PATH")
      ->capture_default_str();
  app.add_option("--nproc", options->num_ranks,
                 "Start this number of ranks on this machine; on several machines, use torchrun, mpirun or srun")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  return [options] {
    const EngineCall call = engine_call(options->train, options->experiment, options->run);
    return options->num_ranks > 1 && !is_local_rank() ? run_local_ranks(options->num_ranks) : call_engine(call);
  };
}

}  // namespace trainctl::cli
