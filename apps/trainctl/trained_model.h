// The options of commands that use a trained model: a run directory alone, or an experiment file and a checkpoint.
#pragma once

#include <optional>
#include <string>

#include "command.h"
#include "engine_call.h"

namespace trainctl::cli {

struct TrainedModelOptions {
  ExperimentOptions experiment;  // the file may be a run directory
  RunOptions run;
  std::string checkpoint;  // empty: that of the run directory
};

/// Adds `RUN`, `--checkpoint` and the options of a run. `kinds` lists what `--checkpoint` takes.
void add_trained_model_options(CLI::App& app, TrainedModelOptions& options, const std::string& kinds);

/// Returns a call for the experiment and the checkpoint that the user means. A run directory alone means its best
/// checkpoint, or the newest if the run keeps no best one. Throws ConfigError if no checkpoint is named.
EngineCall engine_call(EngineCommand command, const TrainedModelOptions& options);

/// Returns the path that the command writes: `output`, or `name` in the run directory if `output` is empty. Throws
/// ConfigError if there is neither.
std::string output_path(const TrainedModelOptions& options, const std::string& output, const std::string& name);

}  // namespace trainctl::cli
