#include "trained_model.h"

#include <filesystem>

#include "core/log.h"
#include "run_experiment.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigOfRun = "config.yaml";

/// Returns the run directory that the user gave in place of an experiment file, if it is one.
std::optional<fs::path> run_directory(const TrainedModelOptions& options) {
  const fs::path path = options.experiment.config;
  if (!fs::exists(path))
    throw wrong_use(options.experiment.config,
                    "no such file or directory; expected a run directory, or an experiment file with "
                    "--checkpoint");
  if (!fs::is_directory(path)) return std::nullopt;
  if (fs::is_regular_file(path / kConfigOfRun)) return path;
  throw wrong_use(options.experiment.config,
                  "this directory has no config.yaml; expected an experiment file, or a run directory that "
                  "'trainctl train' wrote");
}

/// Returns the best checkpoint of a run directory if the run keeps one, and else the path itself.
std::string checkpoint_meant_by(const fs::path& path) {
  const fs::path best = path / "checkpoints" / "best";
  if (fs::is_symlink(best) && !fs::exists(best))
    core::log().warning(best.string() + ": the run's best checkpoint is missing; the newest is taken");
  if (!fs::is_directory(best)) return path.string();
  core::log().info(best.string() + ": the run's best checkpoint; --checkpoint " + (path / "checkpoints").string() +
                   " takes the newest");
  return best.string();
}

/// Refuses an output that is a run, a checkpoint, or what the command reads: files there would be replaced.
void refuse_used_output(const TrainedModelOptions& options, const std::string& output) {
  std::error_code missing;
  const fs::path read = options.checkpoint.empty() ? options.experiment.config : options.checkpoint;
  for (const char* name : {".config_hash", "metrics.jsonl", "manifest.json"})
    if (fs::exists(fs::path(output) / name, missing))
      throw wrong_use("--output", output + " is a run or a checkpoint, by its " + name +
                                      "; expected another directory, such as " + output + "/export");
  if (fs::equivalent(output, read, missing))
    throw wrong_use("--output", output + " is what the command reads; expected another path");
}

}  // namespace

void add_trained_model_options(CLI::App& app, TrainedModelOptions& options, const std::string& kinds) {
  app.add_option("RUN|CONFIG", options.experiment.config, "A run directory, or an experiment file with --checkpoint")
      ->required();
  add_set_option(app, options.experiment.sets);
  add_run_options(app, options.run);
  app.remove_option(app.get_option("--run-dir"));
  app.add_option("--checkpoint", options.checkpoint,
                 kinds + " (default the run's best checkpoint, or its newest if it keeps no best one)")
      ->type_name("PATH");
}

EngineCall engine_call(EngineCommand command, const TrainedModelOptions& options) {
  const std::optional<fs::path> run = run_directory(options);
  if (!run && options.checkpoint.empty())
    throw wrong_use("--checkpoint",
                    "an experiment file says nothing of trained weights; expected --checkpoint, or a run "
                    "directory in place of " +
                        options.experiment.config);
  ExperimentOptions experiment = options.experiment;
  if (run) experiment.config = (*run / kConfigOfRun).string();
  EngineCall call = engine_call(std::move(command), experiment, options.run);
  if (run) call.run_dir = run->string();
  call.checkpoint = checkpoint_meant_by(options.checkpoint.empty() ? *run : fs::path(options.checkpoint));
  return call;
}

std::string output_path(const TrainedModelOptions& options, const std::string& output, const std::string& name) {
  if (!output.empty()) {
    refuse_used_output(options, output);
    return output;
  }
  if (const std::optional<fs::path> run = run_directory(options)) return (*run / name).string();
  throw wrong_use("--output", "expected a path to write, since no run directory is given");
}

}  // namespace trainctl::cli
