#include <filesystem>
#include <memory>

#include "folds.h"
#include "local_ranks.h"
#include "run_experiment.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

/// Takes a run directory in place of an experiment file: the run goes on there.
void go_on_with_run(ExperimentOptions& experiment, RunOptions& run) {
  const std::filesystem::path path = experiment.config;
  if (!std::filesystem::is_directory(path)) return;
  const std::filesystem::path config = path / "config.yaml";
  if (!std::filesystem::is_regular_file(config))
    throw wrong_use(experiment.config,
                    "this directory has no config.yaml; expected an experiment file, or a run directory that "
                    "'trainctl train' wrote");
  experiment.config = config.string();
  if (run.run_dir.empty()) run.run_dir = path.string();
}

}  // namespace

Action declare_train(CLI::App& app) {
  const auto options = std::make_shared<FoldsOptions>();
  add_experiment_options(app, options->experiment);
  app.get_option("CONFIG")->description("Experiment file, or the directory of a run to go on with");
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
  app.add_option("--folds", options->num_folds,
                 "Train a run for each of K folds of the training samples, and print the mean and the spread of their "
                 "metrics; the same command continues where it was stopped")
      ->type_name("K")
      ->check(CLI::Range(2, 1000));
  return [options] {
    if (options->num_folds > 0) return train_folds(*options);
    go_on_with_run(options->experiment, options->run);
    const EngineCall call = engine_call(options->train, options->experiment, options->run);
    return options->num_ranks > 1 && !is_local_rank() ? run_local_ranks(options->num_ranks) : call_engine(call);
  };
}

}  // namespace trainctl::cli
