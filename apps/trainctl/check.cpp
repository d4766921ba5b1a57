#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "core/error.h"
#include "core/json.h"
#include "core/terminal.h"
#include "core/text.h"
#include "engine_call.h"
#include "experiment/load.h"
#include "load_plugin.h"

namespace trainctl::cli {
namespace {

struct CheckRequest {
  std::vector<std::string> configs;
  std::vector<std::string> sets;
  bool file_only = false;
  bool json = false;
  CheckOptions engine{};
};

/// Looks for problems of a file. `result` becomes 1 if the file has none, and its network fails the check of
/// coordinates.
std::vector<core::Problem> problems_of(const std::string& config, const CheckRequest& options, int& result) {
  try {
    experiment::LoadedExperiment loaded = experiment::load_experiment(config, options.sets, load_plugin);
    if (!options.file_only)
      result = call_engine({.command = options.engine, .loaded = std::move(loaded), .show = Show::warnings});
    return {};
  } catch (const core::ConfigError& error) {
    return error.problems();
  } catch (const core::Error& error) {
    return {{config, "", error.text()}};
  }
}

int check(const CheckRequest& options) {
  int result = core::kExitDone;
  std::size_t num_problems = 0;
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const std::string& config : options.configs) {
    int own = core::kExitDone;
    const std::vector<core::Problem> problems = problems_of(config, options, own);
    result = std::max(result, own);
    num_problems += problems.size();
    auto listed = nlohmann::ordered_json::array();
    for (const core::Problem& problem : problems) {
      if (options.json)
        listed.push_back({{"where", problem.where}, {"path", problem.path}, {"message", problem.message}});
      else
        core::print(stderr, "%s\n", problem.text().c_str());
    }
    document.push_back({{"file", config}, {"problems", std::move(listed)}});
    if (!options.json && problems.empty() && own == core::kExitDone) core::print(stdout, "%s: ok\n", config.c_str());
  }
  if (options.json) std::printf("%s\n", core::indented_json(document).c_str());
  return num_problems == 0 ? result : core::kExitUsage;
}

}  // namespace

Action declare_check(CLI::App& app) {
  const auto options = std::make_shared<CheckRequest>();
  app.add_option("CONFIG", options->configs, "Experiment files")->required();
  app.add_option("--set", options->sets, "Replace a value before checking")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  app.add_flag("--file-only", options->file_only,
               "Don't look whether the data, weights and layers that the files name are there");
  CLI::Option* const coordinates = app.add_flag(
      "--coordinates", options->engine.coordinates,
      "Train the network at several widths for a few steps, and print how its values depend on the width (muP)");
  app.add_option("--widths", options->engine.widths, "The widths; else up to four, from the base's to the network's")
      ->type_name("WIDTH,WIDTH…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(coordinates);
  app.add_option("--steps", options->engine.steps, "Updates before the values are compared")
      ->needs(coordinates)
      ->check(CLI::PositiveNumber);
  coordinates->excludes("--file-only");
  app.add_flag("--json", options->json, "One JSON document on standard output")->excludes(coordinates);
  return [options] { return check(*options); };
}

}  // namespace trainctl::cli
