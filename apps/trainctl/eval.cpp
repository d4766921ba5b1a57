#include <memory>

#include "run_experiment.h"

namespace trainctl::cli {

Action declare_eval(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    std::string checkpoint;
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  add_run_options(app, options->run);
  app.remove_option(app.get_option("--run-dir"));
  app.add_option(
         "--checkpoint", options->checkpoint,
         "A run, checkpoints or step directory (its newest complete checkpoint), one in Hugging Face layout, or an "
         "exported TorchScript or ONNX file")
      ->required()
      ->type_name("PATH");
  return [options] {
    EngineCall call = engine_call(EvalOptions{}, options->experiment, options->run);
    call.checkpoint = options->checkpoint;
    return call_engine(call);
  };
}

}  // namespace trainctl::cli
