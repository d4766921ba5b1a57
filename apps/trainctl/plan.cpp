// `trainctl plan`: estimates an experiment before anything runs.
#include <cstdio>
#include <memory>

#include "cluster/rehearsed.h"
#include "cluster/search.h"
#include "cluster_plan.h"
#include "command.h"
#include "core/error.h"
#include "engine_call.h"
#include "measured_process.h"
#include "number_option.h"
#include "run_experiment.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

constexpr const char* kThisDevice = "here";
constexpr double kMostGiB = 1 << 20;  // bytes are counted as integers of 64 bits

/// Refuses what stands for a search, or for a device of the tables.
void refuse_options_of_search(const PlanOptions& plan, const ClusterPlanOptions& options) {
  const auto refuse = [](const char* option) {
    throw wrong_use(option, "goes with a device of the tables; with --device here, the experiment's own layout runs");
  };
  if (!options.html.empty()) refuse("--html");
  if (options.explain) refuse("--explain");
  if (options.global_batch > 0) refuse("--global-batch");
  if (plan.memory_gib) refuse("--memory");
  if (plan.cost_per_hour) refuse("--cost-per-hour");
  if (options.network.empty())
    throw wrong_use("--device here",
                    "needs the network; expected --network with a file or a name, such as --network "
                    "nvlink4");
}

/// Predicts the experiment's own layout with the times of this device: --device here.
int plan_rehearsed(const ExperimentOptions& experiment, const PlanOptions& plan, const ClusterPlanOptions& options,
                   bool json) {
  refuse_options_of_search(plan, options);
  cluster::Tables tables = cluster::builtin_tables();
  const std::string name = network_name(tables, options.network);
  if (name.empty()) throw wrong_use("--network", options.network + " has no network; expected one");
  cluster::Cluster machines{.network = cluster::find_network(tables, name), .latencies = tables.latencies};
  cluster::check_topology(machines.network, plan.world, options.nodes_of);
  machines.network.domain = options.nodes_of;
  const EngineCall call = engine_call(
      RehearseOptions{.world = plan.world, .per_node = std::min(options.nodes_of, plan.world)}, experiment, {});
  const std::vector<replay::RankTrace> traces = replay::read_traces(output_of_process(call, "running a rank alone"));
  const cluster::Collectives collectives(machines);
  const cluster::RehearsedStep rehearsed{.experiment = call.loaded.experiment.name,
                                         .world = plan.world,
                                         .nodes_of = options.nodes_of,
                                         .network = name,
                                         .step = replay::replay(traces, [&](const replay::Communication& what) {
                                           return cluster::cost_of(what, collectives, options.nodes_of);
                                         })};
  std::printf("%s\n",
              json ? cluster::format_rehearsed_json(rehearsed).c_str() : cluster::format_rehearsed(rehearsed).c_str());
  return core::kExitDone;
}

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
  app.add_option("--memory", options->plan.memory_gib, "Memory of each rank's device, GiB")
      ->check(finite_number(1e-3, kMostGiB));
  CLI::Option* const device =
      app.add_option("--device", options->plan.device,
                     "Name of a device, such as h100; with --nodes-of also here (default this machine's)");
  app.add_option("--cost-per-hour", options->plan.cost_per_hour,
                 "Price of one device per hour, for the price of the run")
      ->check(finite_number(0, 1e9));
  app.add_flag("--calibrate", options->plan.calibrate,
               "Measure this machine's rates again, to estimate the time of a step")
      ->excludes(device);
  add_cluster_options(app, options->cluster);
  app.add_flag("--json", options->json, "One JSON document on standard output");
  return [options] {
    const bool is_here = options->plan.device == kThisDevice;
    if (is_here && options->cluster.nodes_of == 0)
      throw wrong_use("--device here", "needs the ranks of a node; expected --nodes-of and --network, or no --device");
    if (options->cluster.nodes_of == 0) {
      const EngineCall call = engine_call(options->plan, options->experiment, {.json = options->json});
      if (options->plan.cost_per_hour && !call.loaded.experiment.train.steps)
        throw wrong_use("--cost-per-hour",
                        "a plan reads no data, and knows no number of steps by train.epochs; expected train.steps, as "
                        "with --set train.epochs=null --set train.steps=1000");
      return call_engine(call);
    }
    if (is_here) return plan_rehearsed(options->experiment, options->plan, options->cluster, options->json);
    return plan_cluster(options->experiment, options->plan, options->cluster, options->json);
  };
}

}  // namespace trainctl::cli
