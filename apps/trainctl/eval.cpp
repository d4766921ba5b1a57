#include <memory>

#include "trained_model.h"

namespace trainctl::cli {

Action declare_eval(CLI::App& app) {
  const auto options = std::make_shared<TrainedModelOptions>();
  add_trained_model_options(app, *options,
                            "A run, checkpoints or step directory, one in Hugging Face layout, or an exported "
                            "TorchScript or ONNX file");
  return [options] { return call_engine(engine_call(EvalOptions{}, *options)); };
}

}  // namespace trainctl::cli
