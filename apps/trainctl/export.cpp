#include <memory>

#include "trained_model.h"
#include "wrong_use.h"

namespace trainctl::cli {

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
  app.add_option(
         "--format", options->export_options.format,
         "auto: hf where transformers or timm has the network, else onnx; hf: config.json, weights and tokenizer as "
         "transformers loads them; peft: the adapters of model.lora, apart from their base; safetensors: the weights "
         "alone; "
         "gguf: one file for llama.cpp; torchscript, onnx: the network as a graph, for any batch size and length; mar: "
         "an archive for TorchServe; "
         "triton: a model repository for Triton")
      ->check(CLI::IsMember({"auto", "hf", "peft", "safetensors", "gguf", "torchscript", "onnx", "mar", "triton"}))
      ->capture_default_str();
  app.add_option("--naming", options->export_options.naming,
                 "Library whose names and config.json hf writes; auto: timm for a ResNet, else transformers")
      ->check(CLI::IsMember({"auto", "transformers", "timm"}))
      ->capture_default_str();
  app.add_option(
         "--outtype", options->export_options.outtype,
         "With gguf: how matrices are stored; q8_0 and q4_0 have blocks of 32 values with a common scale, q4_k of 256")
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
  return [options] {
    if (options->export_options.mobile && options->export_options.format != "torchscript")
      throw wrong_use("--mobile", "needs --format torchscript");
    ExportOptions& chosen = options->export_options;
    chosen.output = output_path(options->trained, chosen.output, "export");
    EngineCall call = engine_call(chosen, options->trained);
    call.tokenizer = options->tokenizer;
    return call_engine(call);
  };
}

}  // namespace trainctl::cli
