#include <memory>
#include <stdexcept>

#include "experiment/run_config.h"
#include "trained_model.h"
#include "word_option.h"
#include "wrong_use.h"

namespace trainctl::cli {

std::string_view meaning_of(ExportFormat format) {
  switch (format) {
    case ExportFormat::auto_:
      return "hf if transformers or timm has the network, else onnx";
    case ExportFormat::hf:
      return "config.json, weights and tokenizer as transformers or timm loads them";
    case ExportFormat::peft:
      return "the adapters of model.lora, apart from their base";
    case ExportFormat::safetensors:
      return "the weights alone";
    case ExportFormat::gguf:
      return "one file for llama.cpp";
    case ExportFormat::torchscript:
      return "the network as a TorchScript graph, for any batch size and length";
    case ExportFormat::onnx:
      return "the network as an ONNX graph, for any batch size and length";
    case ExportFormat::mar:
      return "an archive for TorchServe";
    case ExportFormat::triton:
      return "a model repository for Triton";
  }
  throw std::logic_error("unknown format");
}

Action declare_export(CLI::App& app) {
  struct Options {
    TrainedModelOptions trained;
    std::string tokenizer;
    ExportOptions export_options;
  };
  const auto options = std::make_shared<Options>();
  add_trained_model_options(
      app, options->trained,
      "A run, checkpoints or step directory, one in Hugging Face layout, or, for graphs, what quantize wrote");
  add_word_option<ExportFormat>(app, "--format", options->export_options.format, help_of_words<ExportFormat>())
      ->default_str("auto");
  CLI::Option* const naming =
      app.add_option("--naming", options->export_options.naming,
                     "Library whose names and config.json hf writes; auto: timm for a ResNet, else transformers")
          ->check(CLI::IsMember({"auto", "transformers", "timm"}))
          ->capture_default_str();
  CLI::Option* const outtype = app.add_option("--outtype", options->export_options.outtype,
                                              "With gguf: how matrices are stored; q8_0 and q4_0 have blocks of 32 "
                                              "values with a common scale, q4_k of 256")
                                   ->check(CLI::IsMember({"f32", "f16", "q8_0", "q4_0", "q4_k"}))
                                   ->capture_default_str();
  app.add_option("--tokenizer", options->tokenizer, "Tokenizer to copy (default the dataset's)")->type_name("PATH");
  app.add_flag("--mobile", options->export_options.mobile,
               "With torchscript: frozen and optimized, in the lite interpreter's format");
  app.add_flag("!--no-verify", options->export_options.verify,
               "Don't compare the exported model with the live model on real samples");
  app.add_option(
         "--output", options->export_options.output,
         "Directory to write (default RUN/export); torchscript and onnx also take a file (a name with an extension)")
      ->type_name("PATH");
  return [options, naming, outtype] {
    const ExportFormat format = options->export_options.format;
    if (naming->count() > 0 && format != ExportFormat::auto_ && format != ExportFormat::hf)
      throw wrong_use("--naming", "needs --format hf");
    if (outtype->count() > 0 && format != ExportFormat::gguf) throw wrong_use("--outtype", "needs --format gguf");
    if (options->export_options.mobile && options->export_options.format != ExportFormat::torchscript)
      throw wrong_use("--mobile", "needs --format torchscript");
    ExportOptions& chosen = options->export_options;
    chosen.output = output_path(options->trained, chosen.output, "export");
    EngineCall call = engine_call(chosen, options->trained);
    call.tokenizer = options->tokenizer;
    if (const auto& init_from = call.loaded.experiment.model.init_from)
      std::get<ExportOptions>(call.command).published = experiment::first_init_from(*init_from);
    return call_engine(call);
  };
}

}  // namespace trainctl::cli
