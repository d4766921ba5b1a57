#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "comparison/report.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "measured_process.h"
#include "run_experiment.h"

namespace trainctl {
namespace {

struct Options {
  ExperimentOptions experiment;
  std::vector<std::string> strategies;
  std::int64_t steps = 10;
  std::int64_t warmup = 3;
  std::int64_t rounds = 3;
  std::string html;
  bool json = false;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Measurement measurement_of(const nlohmann::json& document) {
  Measurement measurement{.step_ms = median(document.at("step_ms").get<std::vector<double>>()),
                          .peak_mib = document.at("peak_memory_mib").get<double>()};
  measurement.samples_per_s = document.at("samples_per_step").get<double>() / (measurement.step_ms / 1e3);
  for (const nlohmann::json& loss : document.at("losses"))
    measurement.losses.push_back(loss.is_null() ? NAN : loss.get<double>());
  return measurement;
}

/// The variants in turn, and again: what the machine does meanwhile, it does to all of them.
void measure(const Options& options, AblationReport& report) {
  const RunOptions quiet{.log_level = "warning", .no_progress = true};
  for (std::int64_t round = 0; round < options.rounds; ++round)
    for (VariantResult& result : report.results) {
      ExperimentOptions experiment = options.experiment;
      for (std::string& assignment : assignments(report.strategies, result.variant.on))
        experiment.sets.push_back(std::move(assignment));
      EngineCall call = engine_call("measure", experiment, quiet);
      call.measure = {.steps = options.steps, .warmup = options.warmup};
      const nlohmann::json document = nlohmann::json::parse(output_of_process(call, result.variant.name));
      report.machine = document.at("device").get<std::string>();
      result.rounds.push_back(measurement_of(document));
      std::fprintf(stderr, "round %lld of %lld, %s: %.1f ms a step\n", static_cast<long long>(round + 1),
                   static_cast<long long>(options.rounds), result.variant.name.c_str(), result.rounds.back().step_ms);
    }
}

int compare(const Options& options) {
  const LoadedExperiment loaded = load_experiment(options.experiment.config, options.experiment.sets);
  AblationReport report{.experiment = loaded.experiment.name,
                        .num_steps = options.steps,
                        .num_rounds = options.rounds,
                        .strategies = find_strategies(options.strategies, loaded.flat)};
  for (Variant& variant : ablation_variants(report.strategies)) report.results.push_back({std::move(variant), {}});
  measure(options, report);
  report.figures = compare_variants(report.results);
  report.recommended = recommended(report.figures);
  if (!options.html.empty()) write_file_atomically(options.html, format_html(report));
  std::printf("%s", (options.json ? format_json(report) + "\n" : format_table(report)).c_str());
  return kExitDone;
}

}  // namespace

Action declare_compare(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  app.add_option(
         "--ablate", options->strategies,
         "Run a few steps with each of these alone, with all, and with all but each: " + list_words(strategy_names()))
      ->type_name("A,B,…")
      ->delimiter(',')
      ->required();
  app.add_option("--steps", options->steps, "Timed steps of each run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--warmup", options->warmup, "Steps before them")->check(CLI::Range(0, 100000))->capture_default_str();
  app.add_option("--rounds", options->rounds, "Runs of each variant, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--html", options->html, "Also write a page")->type_name("FILE");
  app.add_flag("--json", options->json, "One JSON document on standard output");
  return [options] { return compare(*options); };
}

}  // namespace trainctl
