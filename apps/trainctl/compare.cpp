#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "compare/report.h"
#include "compare/runs.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "load_plugin.h"
#include "measured_process.h"
#include "run_experiment.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

struct CompareOptions {
  std::vector<std::string> paths;
  std::vector<std::string> sets;
  std::vector<std::string> strategies;
  std::int64_t steps = 10;
  std::int64_t warmup = 3;
  std::int64_t rounds = 3;
  std::string html;
  bool json = false;
};

compare::Measurement measurement_of(const nlohmann::json& document) {
  std::vector<double> losses;
  for (const nlohmann::json& loss : document.at("losses")) losses.push_back(loss.is_null() ? NAN : loss.get<double>());
  return compare::measured(document.at("step_ms").get<std::vector<double>>(),
                           document.at("samples_per_step").get<double>(), document.at("peak_memory_mib").get<double>(),
                           std::move(losses));
}

/// Measures the variants in alternation, so that background load affects all of them equally.
void measure(const CompareOptions& options, compare::AblationReport& report) {
  const RunOptions quiet{.log_level = "warning", .no_progress = true};
  for (std::int64_t round = 0; round < options.rounds; ++round)
    for (compare::VariantResult& result : report.results) {
      ExperimentOptions experiment{.config = options.paths.front(), .sets = options.sets};
      for (std::string& assignment : compare::assignments(report.strategies, result.variant.on))
        experiment.sets.push_back(std::move(assignment));
      const EngineCall call =
          engine_call(MeasureOptions{.steps = options.steps, .warmup = options.warmup}, experiment, quiet);
      const nlohmann::json document =
          core::parse_json(output_of_process(call, result.variant.name), result.variant.name);
      report.machine = document.at("device").get<std::string>();
      result.rounds.push_back(measurement_of(document));
      core::log().info("round " + std::to_string(round + 1) + " of " + std::to_string(options.rounds) + ", " +
                       result.variant.name + ": " + core::format_fixed(result.rounds.back().step_ms, 1) + " ms a step");
    }
}

compare::AblationReport ablate(const CompareOptions& options) {
  const experiment::LoadedExperiment loaded =
      experiment::load_experiment(options.paths.front(), options.sets, load_plugin);
  const auto convolutions = config::traits_of(loaded.experiment.model.network).has_convolutions
                                ? compare::Convolutions::some
                                : compare::Convolutions::none;
  compare::AblationReport report{.experiment = loaded.experiment.name,
                                 .num_steps = options.steps,
                                 .num_rounds = options.rounds,
                                 .strategies = compare::find_strategies(options.strategies, loaded.flat, convolutions)};
  for (compare::Variant& variant : compare::ablation_variants(report.strategies))
    report.results.push_back({std::move(variant), {}});
  measure(options, report);
  report.figures = compare::compare_variants(report.results);
  report.recommended = compare::recommended(report.figures);
  return report;
}

enum class Compared { variants, runs };

/// Tells runs from experiments: a directory is a run, a file is an experiment.
Compared what_is_compared(const CompareOptions& options) {
  const bool ablates = !options.strategies.empty();
  for (const std::string& path : options.paths) {
    const bool is_run = std::filesystem::is_directory(path);
    if (is_run && ablates)
      throw wrong_use("--ablate", "is for an experiment file, and " + path + " is a run directory");
    if (is_run && !options.sets.empty())
      throw wrong_use("--set", "is for an experiment file, and " + path + " is a run");
    if (!is_run && !ablates)
      throw wrong_use(path, std::filesystem::exists(path)
                                ? "is a file; 'compare CONFIG --ablate A,B' measures strategies on an experiment, "
                                  "'compare RUN RUN' compares run directories"
                                : "no such run directory");
  }
  if (ablates && options.paths.size() > 1) throw wrong_use("--ablate", "takes one experiment file, not several");
  return ablates ? Compared::variants : Compared::runs;
}

template <class Report>
int show(const CompareOptions& options, const Report& report) {
  if (!options.html.empty()) core::write_file_atomically(options.html, compare::format_html(report));
  if (options.json)
    std::printf("%s\n", compare::format_json(report).c_str());
  else
    core::print(stdout, "%s", compare::format_table(report).c_str());
  return core::kExitDone;
}

int compare(const CompareOptions& options) {
  if (what_is_compared(options) == Compared::variants) return show(options, ablate(options));
  const compare::RunComparison comparison = compare::compare_runs({options.paths.begin(), options.paths.end()});
  for (const std::string& path : comparison.left_out)
    core::log().info(path + ": this run stopped before its first step; skipped");
  return show(options, comparison);
}

}  // namespace

Action declare_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  app.add_option("CONFIG|RUN", options->paths, "An experiment file, with --ablate; or run directories")->required();
  add_set_option(app, options->sets);
  CLI::Option* const ablate =
      app.add_option("--ablate", options->strategies,
                     "Run a few steps with each strategy alone, with all, and with all but one: " +
                         core::list_words(compare::strategy_names()))
          ->type_name("A,B,…")
          ->delimiter(',')
          ->allow_extra_args(false);
  app.add_option("--steps", options->steps, "Timed steps of each run (--ablate)")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str()
      ->needs(ablate);
  app.add_option("--warmup", options->warmup, "Steps before the timed ones (--ablate)")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str()
      ->needs(ablate);
  app.add_option("--rounds", options->rounds, "Runs of each variant, in turn (--ablate)")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->needs(ablate);
  app.add_option("--html", options->html, "Also write an HTML report")->type_name("FILE");
  app.add_flag("--json", options->json, "One JSON document on standard output");
  return [options] { return compare(*options); };
}

}  // namespace trainctl::cli
