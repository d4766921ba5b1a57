#include "rehearsed_plan.h"

#include <cstdio>

#include "cluster/rehearsed.h"
#include "core/error.h"
#include "measured_process.h"
#include "run_experiment.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

/// Refuses what stands for a search, or for a device of the tables.
void refuse_options_of_search(const PlanOptions& plan, const ClusterPlanOptions& options) {
  const auto refuse = [](const char* option) {
    throw wrong_use(option, "goes with a device of the tables; with --device here, the experiment's own layout runs");
  };
  if (!options.html.empty()) refuse("--html");
  if (options.explain) refuse("--explain");
  if (options.global_batch > 0) refuse("--global-batch");
  if (plan.memory_gib > 0) refuse("--memory");
  if (plan.cost_per_hour > 0) refuse("--cost-per-hour");
  if (options.network.empty())
    throw wrong_use("--device here",
                    "needs the network; expected --network with a file or a name, such as --network "
                    "nvlink4");
}

}  // namespace

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

}  // namespace trainctl::cli
