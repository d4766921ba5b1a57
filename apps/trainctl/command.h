// A command: what it is called, and how it declares its options and runs.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <string>
#include <vector>

namespace trainctl::cli {

/// Runs after parsing; returns the exit code.
using Action = std::function<int()>;

struct Command {
  const char* name;
  const char* summary;
  /// Adds options to `app` and returns what to do with them. Subcommands set their own callbacks.
  Action (*declare)(CLI::App& app);
};

/// All commands, in the order of the help.
std::vector<Command> commands();

Action declare_train(CLI::App& app);
Action declare_profile(CLI::App& app);
Action declare_plan(CLI::App& app);
Action declare_compare(CLI::App& app);
Action declare_report(CLI::App& app);
Action declare_runs(CLI::App& app);
Action declare_track(CLI::App& app);
Action declare_eval(CLI::App& app);
Action declare_generate(CLI::App& app);
Action declare_export(CLI::App& app);
Action declare_predict(CLI::App& app);
Action declare_quantize(CLI::App& app);
Action declare_checkpoint(CLI::App& app);
Action declare_check(CLI::App& app);
Action declare_data(CLI::App& app);
Action declare_tokenize(CLI::App& app);
Action declare_config(CLI::App& app);
Action declare_doctor(CLI::App& app);
Action declare_completion(CLI::App& app);

/// Options of every command that takes an experiment.
struct ExperimentOptions {
  std::string config;
  std::vector<std::string> sets;
};
void add_experiment_options(CLI::App& app, ExperimentOptions& options);
/// `--set` alone.
void add_set_option(CLI::App& app, std::vector<std::string>& sets);

/// Options of every command that runs one.
struct RunOptions {
  std::string run_dir;
  std::string log_level = "info";
  bool no_progress = false;
  bool json = false;
};
void add_run_options(CLI::App& app, RunOptions& options);

}  // namespace trainctl::cli
