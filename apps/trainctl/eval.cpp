#include <memory>

#include "trained_model.h"

namespace trainctl::cli {

Action declare_eval(CLI::App& app) {
  struct Options {
    TrainedModelOptions model;
    EvalOptions eval;
  };
  const auto options = std::make_shared<Options>();
  add_trained_model_options(app, options->model,
                            "A run, checkpoints or step directory, one in Hugging Face layout, or an exported "
                            "TorchScript or ONNX file");
  app.add_option("--split", options->eval.split,
                 "Set to evaluate: eval (others call it validation), test (dataset.test or dataset.test_fraction), or "
                 "train, without random transforms")
      ->type_name("eval|test|train")
      ->transform(CLI::Validator(
          [](std::string& split) {
            if (split == "validation") split = "eval";
            return std::string();
          },
          ""))
      ->check(CLI::IsMember({"eval", "test", "train"}))
      ->capture_default_str();
  app.add_option("--logits", options->eval.logits,
                 "With --split train: file to write the logits of each sample to, for distillation.logits")
      ->type_name("FILE");
  return [options] { return call_engine(engine_call(options->eval, options->model)); };
}

}  // namespace trainctl::cli
