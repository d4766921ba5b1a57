#include "command.h"

namespace trainctl::cli {

std::vector<Command> commands() {
  return {
      {"train", "train, evaluate and checkpoint an experiment; resumes by itself", declare_train},
      {"profile", "run a few steps and say where their time and memory go", declare_profile},
      {"plan", "predict memory and time of an experiment before anything runs", declare_plan},
      {"compare", "what each strategy is worth on a job, or how runs differ", declare_compare},
      {"report", "a page about a run: curves, evaluation, samples, config and machine", declare_report},
      {"runs", "list runs with their state and best metric; remove what is not needed", declare_runs},
      {"track", "deliver runs to trackers, such as TensorBoard", declare_track},
      {"eval", "metrics of a checkpoint on the evaluation set", declare_eval},
      {"predict", "one JSON line for each image, text or row", declare_predict},
      {"quantize", "a small, fast model of a checkpoint, and what it costs", declare_quantize},
      {"generate", "text from a causal language model", declare_generate},
      {"export", "leave a checkpoint in a form that others load", declare_export},
      {"checkpoint", "one file out of a checkpoint, or its checksums", declare_checkpoint},
      {"check", "report every problem in experiment files at once", declare_check},
      {"data", "prepare, measure and verify datasets", declare_data},
      {"tokenize", "text to token ids and back; learn a vocabulary from text", declare_tokenize},
      {"config", "show, describe and start experiment files", declare_config},
      {"doctor", "what this machine offers, what is missing and how to get it", declare_doctor},
      {"completion", "the script that completes command lines in bash, zsh or fish", declare_completion},
  };
}

void add_experiment_options(CLI::App& app, ExperimentOptions& options) {
  app.add_option("CONFIG", options.config, "Experiment file")->required();
  add_set_option(app, options.sets);
}

void add_set_option(CLI::App& app, std::vector<std::string>& sets) {
  app.add_option("--set", sets, "Replace a value: --set optimizer.lr=1e-3 (repeatable)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
}

void add_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("--run-dir", options.run_dir, "Directory of the run (default runs/<name>/<UTC time>-<n>)")
      ->type_name("DIR");
  app.add_option("--log-level", options.log_level, "Least level of messages to show")
      ->check(CLI::IsMember({"info", "warning"}))
      ->capture_default_str();
  app.add_flag("--no-progress", options.no_progress, "Plain lines instead of a progress bar");
  app.add_flag("--json", options.json, "One JSON document on standard output");
}

}  // namespace trainctl::cli
