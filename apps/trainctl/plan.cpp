// `trainctl plan`: estimates an experiment before anything runs.
#include <memory>

#include "cluster_plan.h"
#include "command.h"
#include "engine_call.h"
#include "rehearsed_plan.h"
#include "run_experiment.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

/// Options that predict a cluster, which stand beside those of the engine.
void add_cluster_options(CLI::App& app, ClusterPlanOptions& options) {
  CLI::Option* const nodes =
      app.add_option("--nodes-of", options.nodes_of,
                     "Devices of a node: search the layouts of a cluster of such nodes, without LibTorch")
          ->check(CLI::Range(1, 1 << 20));
  app.add_option("--network", options.network, "File with a network, or the name of a known one (default the device's)")
      ->type_name("FILE")
      ->needs(nodes);
  app.add_option("--global-batch", options.global_batch, "Sequences of a step (default the experiment's)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->needs(nodes);
  app.add_option("--html", options.html, "Also write a page: scaling, memory by rank, timeline")
      ->type_name("FILE")
      ->needs(nodes);
  app.add_flag("--explain", options.explain, "Print the terms of the first layout's time and memory")->needs(nodes);
}

}  // namespace

Action declare_plan(CLI::App& app) {
  struct Options {
    ExperimentOptions experiment;
    PlanOptions plan;
    ClusterPlanOptions cluster;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, options->experiment);
  app.add_option("--world", options->plan.world, "Ranks that share the work")->check(CLI::Range(1, 1 << 20));
  app.add_option("--memory", options->plan.memory_gib, "Memory of each rank's device, GiB")->check(CLI::PositiveNumber);
  app.add_option("--device", options->plan.device,
                 "Name of a device, such as h100; with --nodes-of also here (default this machine's)");
  app.add_option("--cost-per-hour", options->plan.cost_per_hour,
                 "Price of one device per hour, for the price of the run")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--calibrate", options->plan.calibrate,
               "Measure this machine's rates again, to estimate the time of a step");
  add_cluster_options(app, options->cluster);
  app.add_flag("--json", options->json, "One JSON document on standard output");
  return [options] {
    const bool is_here = options->plan.device == kThisDevice;
    if (is_here && options->cluster.nodes_of == 0)
      throw wrong_use("--device here", "needs the ranks of a node; expected --nodes-of and --network, or no --device");
    if (options->cluster.nodes_of == 0)
      return call_engine(engine_call(options->plan, options->experiment, {.json = options->json}));
    if (is_here) return plan_rehearsed(options->experiment, options->plan, options->cluster, options->json);
    return plan_cluster(options->experiment, options->plan, options->cluster, options->json);
  };
}

}  // namespace trainctl::cli
