#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "core/error.h"
#include "core/text.h"
#include "engine_call.h"
#include "experiment/load.h"

namespace trainctl::cli {
namespace {

struct CheckRequest {
  std::vector<std::string> configs;
  std::vector<std::string> sets;
  bool file_only = false;
  bool json = false;
};

std::vector<core::Problem> problems_of(const std::string& config, const CheckRequest& options) {
  try {
    experiment::LoadedExperiment loaded = experiment::load_experiment(config, options.sets);
    if (!options.file_only)
      call_engine({.command = CheckOptions{}, .loaded = std::move(loaded), .show = Show::warnings});
    return {};
  } catch (const core::ConfigError& error) {
    return error.problems();
  } catch (const core::Error& error) {
    return {{config, "", error.text()}};
  }
}

int check(const CheckRequest& options) {
  std::size_t num_problems = 0;
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const std::string& config : options.configs) {
    const std::vector<core::Problem> problems = problems_of(config, options);
    num_problems += problems.size();
    auto listed = nlohmann::ordered_json::array();
    for (const core::Problem& problem : problems) {
      if (options.json)
        listed.push_back({{"where", problem.where}, {"path", problem.path}, {"message", problem.message}});
      else
        std::fprintf(stderr, "%s\n", problem.text().c_str());
    }
    document.push_back({{"file", config}, {"problems", std::move(listed)}});
    if (!options.json && problems.empty()) std::printf("%s: ok\n", config.c_str());
  }
  if (options.json) std::printf("%s\n", document.dump(2).c_str());
  return num_problems == 0 ? core::kExitDone : core::kExitUsage;
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
  app.add_flag("--json", options->json, "One JSON document on standard output");
  return [options] { return check(*options); };
}

}  // namespace trainctl::cli
