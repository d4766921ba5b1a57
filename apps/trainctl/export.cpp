#include <memory>

#include "core/error.h"
#include "run_experiment.h"

namespace trainctl::cli {

Action declare_export(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    std::string checkpoint;
    std::string tokenizer;
    ExportOptions export_options;
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  add_run_options(app, options->run);
  app.remove_option(app.get_option("--run-dir"));
  app.add_option(
         "--checkpoint", options->checkpoint,
         "A run, checkpoints or step directory, one in Hugging Face layout, or, for graphs, what quantize wrote")
      ->required()
      ->type_name("PATH");
  app.add_option(
         "--format", options->export_options.format,
         "hf: config.json, weights and tokenizer as transformers loads them; safetensors: the weights alone; "
         "torchscript, onnx: the network as a graph, for any batch size and length; mar: an archive for TorchServe; "
         "triton: a model repository for Triton")
      ->check(CLI::IsMember({"hf", "safetensors", "torchscript", "onnx", "mar", "triton"}))
      ->capture_default_str();
  app.add_option("--naming", options->export_options.naming,
                 "Library whose names and config.json hf writes; auto: timm for a ResNet, else transformers")
      ->check(CLI::IsMember({"auto", "transformers", "timm"}))
      ->capture_default_str();
  app.add_option("--tokenizer", options->tokenizer, "Tokenizer to copy (default the dataset's)")->type_name("PATH");
  app.add_flag("--mobile", options->export_options.mobile,
               "With torchscript: frozen and optimized, in the lite interpreter's format");
  app.add_flag("!--no-verify", options->export_options.verify,
               "Don't compare the exported model with the live model on real samples");
  app.add_option("--output", options->export_options.output,
                 "Directory to write; torchscript and onnx also take a file (a name with an extension)")
      ->required()
      ->type_name("PATH");
  return [options] {
    if (options->export_options.mobile && options->export_options.format != "torchscript")
      throw core::ConfigError({{"--mobile", "", "needs --format torchscript"}});
    EngineCall call = engine_call(options->export_options, options->experiment, options->run);
    call.checkpoint = options->checkpoint;
    call.tokenizer = options->tokenizer;
    return call_engine(call);
  };
}

}  // namespace trainctl::cli
