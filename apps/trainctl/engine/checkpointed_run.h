// A run with the weights of a checkpoint, for commands that use a model and don't train it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "../engine_call.h"
#include "quantization/quantization.h"
#include "tokenizer/tokenizer.h"
#include "train/run/run.h"

namespace trainctl::engine {

struct CheckpointedRun {
  std::unique_ptr<train::Run>
      run;                 // in evaluation mode, with averaged weights where the run has them (and then no averages)
  std::string checkpoint;  // what was loaded
  std::int64_t num_parameters = 0;                             // before anything was rounded
  std::unique_ptr<quantization::Quantization> quantization{};  // of a model in fewer bits
  std::unique_ptr<model::Model>
      replaced{};  // of an exported file: the network that it stands for, which the run refers to
};

/// Samples of the dataset that a command reads, beside training samples that decide on the inputs of a model.
enum class Samples { not_needed, eval, test, train };

/// Loads the weights of call.checkpoint for use. call.checkpoint is a run, checkpoints or step directory, weights in
/// Hugging Face layout, a directory that quantize wrote, or an exported TorchScript or ONNX file. Weights in Hugging
/// Face layout must fit exactly. Quantized models and exported files run on the CPU. Notices go to stderr. If samples
/// are not needed, a checkpoint's own description stands for the data.
CheckpointedRun load_checkpointed_run(const cli::EngineCall& call, Samples samples);

/// "runs/a/checkpoints/step_00000100 (step 100)"
std::string title(const CheckpointedRun& loaded);

/// What call.tokenizer names, or else the dataset; none where neither does.
std::optional<std::string> tokenizer_path(const cli::EngineCall& call);

/// tokenizer_path(), loaded; an Error where there is none.
std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const cli::EngineCall& call);

}  // namespace trainctl::engine
