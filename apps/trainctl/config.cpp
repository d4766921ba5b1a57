#include <cstdio>
#include <memory>

#include "command.h"
#include "config/emit.h"
#include "core/error.h"
#include "experiment/describe.h"
#include "experiment/load.h"

namespace trainctl::cli {
namespace {

int print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return core::kExitDone;
}

void add_show(CLI::App& app) {
  CLI::App* show = app.add_subcommand("show", "the resolved experiment, with the source of each value");
  const auto options = std::make_shared<ExperimentOptions>();
  add_experiment_options(*show, *options);
  show->final_callback([options] {
    const experiment::LoadedExperiment loaded = experiment::load_experiment(options->config, options->sets);
    print(config::emit(loaded.node, config::Comments::origins));
  });
}

void add_new(CLI::App& app) {
  CLI::App* starter = app.add_subcommand("new", "a starter file, explained line by line");
  const auto options = std::make_shared<experiment::StarterChoice>();
  starter->add_option("--name", options->name, "Name of the experiment")->capture_default_str();
  starter->add_option("--model", options->model, "Network (default cnn)");
  starter->add_option("--optimizer", options->optimizer, "Update rule (default adamw)");
  starter->final_callback([options] { print(experiment::experiment_starter(*options)); });
}

}  // namespace

Action declare_config(CLI::App& app) {
  app.require_subcommand(1);
  add_show(app);
  add_new(app);
  app.add_subcommand("schema", "JSON schema for editors")->final_callback([] {
    print(experiment::experiment_schema());
  });
  app.add_subcommand("reference", "every key, as Markdown")->final_callback([] {
    print(experiment::experiment_reference());
  });
  return [] { return core::kExitDone; };
}

}  // namespace trainctl::cli
