#include <memory>

#include "trained_model.h"

namespace trainctl::cli {

Action declare_predict(CLI::App& app) {
  struct Options {
    TrainedModelOptions trained;
    std::string tokenizer;
    PredictOptions predict;
  };
  const auto options = std::make_shared<Options>();
  add_trained_model_options(
      app, options->trained,
      "A run, checkpoints or step directory, one in Hugging Face layout, or an exported TorchScript or ONNX "
      "file");
  for (const char* name : {"--json", "--no-progress"}) app.remove_option(app.get_option(name));
  app.add_option(
         "INPUT,--input", options->predict.inputs,
         "Images; files of texts (one per line, .jsonl, .csv, .tsv); tables (.csv, .tsv); directories and "
         "globs of them. Default, or -: "
         "standard input, with one image path per line, or one image; one text per line; a table. A file that can't "
         "be opened makes exit code 1, after the others are answered")
      ->type_name("FILE");
  app.add_option("--batch-size", options->predict.batch_size, "Inputs per batch (default dataset.batch_size)")
      ->check(CLI::PositiveNumber);
  app.add_option("--top", options->predict.top, "Number of classes, or tokens, to report")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tokenizer", options->tokenizer, "Tokenizer file or directory, or bytes (default the dataset's)")
      ->type_name("PATH");
  app.add_option("--format", options->predict.format,
                 "jsonl: a JSON object per line; csv: input, line, label, score, value, error")
      ->check(CLI::IsMember({"jsonl", "csv"}))
      ->capture_default_str();
  app.add_option("--output", options->predict.output, "File to write (default standard output)")->type_name("FILE");
  app.add_option("--masks", options->predict.masks,
                 "Of semantic_segmentation: directory for a PNG file of class numbers for each image, in the size that "
                 "the network is given")
      ->type_name("DIR");
  return [options] {
    EngineCall call = engine_call(options->predict, options->trained);
    call.tokenizer = options->tokenizer;
    return call_engine(call);
  };
}

}  // namespace trainctl::cli
