#include <memory>

#include "run_experiment.h"

namespace trainctl::cli {

Action declare_predict(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    std::string checkpoint;
    std::string tokenizer;
    PredictOptions predict;
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  add_run_options(app, options->run);
  for (const char* name : {"--run-dir", "--json", "--no-progress"}) app.remove_option(app.get_option(name));
  app.add_option("--checkpoint", options->checkpoint,
                 "A run, checkpoints or step directory, one in Hugging Face layout, or an exported TorchScript or ONNX "
                 "file")
      ->required()
      ->type_name("PATH");
  app.add_option("--input", options->predict.inputs,
                 "Images; files of texts (one per line, .jsonl, .csv, .tsv); tables (.csv, .tsv). Default, or -: "
                 "standard input, with one image path per line, or one image; one text per line; a table")
      ->type_name("FILE");
  app.add_option("--batch-size", options->predict.batch_size, "Inputs per batch (default dataset.batch_size)")
      ->check(CLI::PositiveNumber);
  app.add_option("--top", options->predict.top, "Number of classes, or tokens, to report")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tokenizer", options->tokenizer, "Tokenizer file or directory, or bytes (default the dataset's)")
      ->type_name("PATH");
  return [options] {
    EngineCall call = engine_call(options->predict, options->experiment, options->run);
    call.checkpoint = options->checkpoint;
    call.tokenizer = options->tokenizer;
    return call_engine(call);
  };
}

}  // namespace trainctl::cli
