// `trainctl plan`: estimates an experiment before anything runs.
#include <memory>

#include "command.h"
#include "engine_call.h"
#include "run_experiment.h"

namespace trainctl::cli {

Action declare_plan(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    PlanOptions plan;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  app.add_option("--world", options->plan.world, "Ranks that share the work")->check(CLI::Range(1, 1 << 20));
  app.add_option("--memory", options->plan.memory_gib, "Memory of each rank's device, GiB")->check(CLI::PositiveNumber);
  app.add_option("--device", options->plan.device, "Name of a device, such as h100 (default this machine's)");
  app.add_option("--cost-per-hour", options->plan.cost_per_hour,
                 "Price of one device per hour, for the price of the run")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--calibrate", options->plan.calibrate,
               "Measure this machine's rates again, to estimate the time of a step");
  app.add_flag("--json", options->json, "One JSON document on standard output");
  return [options] { return call_engine(engine_call(options->plan, options->experiment, {.json = options->json})); };
}

}  // namespace trainctl::cli
