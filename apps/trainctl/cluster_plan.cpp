#include "cluster_plan.h"

#include <cstdio>
#include <filesystem>

#include "cluster/report.h"
#include "cluster/search.h"
#include "cluster_model.h"
#include "core/error.h"
#include "core/file.h"
#include "core/terminal.h"
#include "core/text.h"
#include "load_plugin.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

constexpr double kGiB = 1 << 30;
constexpr double kHour = 3600;

cluster::Cluster cluster_for(const PlanOptions& plan, const ClusterPlanOptions& options, cluster::Tables& tables) {
  const std::string network = network_name(tables, options.network);
  if (plan.device.empty()) throw wrong_use("--nodes-of", "needs the name of a device; expected --device h100");
  cluster::Cluster found = cluster::cluster_of(tables, {.device = plan.device, .network = network});
  cluster::check_topology(found.network, plan.world, options.nodes_of);
  found.network.domain = options.nodes_of;
  return found;
}

std::optional<cluster::Candidate> own_candidate(const experiment::LoadedExperiment& experiment,
                                                const cluster::SearchRequest& request) {
  const std::optional<cluster::Layout> layout = own_layout(experiment, request.world);
  if (!layout) return std::nullopt;
  cluster::check_layout(request.model, *layout);
  const cluster::Setup setup{.model = request.model, .layout = *layout, .cluster = request.cluster};
  return cluster::Candidate{
      .layout = *layout, .step = cluster::step_time(setup), .memory = cluster::peak_memory(setup)};
}

void refuse_if_nothing_fits(const cluster::SearchRequest& request, const cluster::SearchResult& result) {
  if (!result.best.empty()) return;
  throw core::Error("no layout fits: the smallest, " + cluster::axes_text(*result.smallest) + ", needs " +
                    core::format_bytes(result.smallest_bytes) + " on each device, and " + request.cluster.device.name +
                    " has " + core::format_bytes(request.memory_bytes))
      .hint("more devices (--world), or a device with more memory");
}

}  // namespace

std::string network_name(cluster::Tables& tables, const std::string& network) {
  if (network.empty() || !std::filesystem::exists(network)) {
    if (!network.empty()) cluster::find_network(tables, network);
    return network;
  }
  const std::vector<std::string> names = cluster::add_file(tables, network);
  if (names.size() > 1)
    throw wrong_use("--network", network + " has " + core::list_words(names) + "; expected one network");
  return names.empty() ? "" : names.front();
}

int plan_cluster(const ExperimentOptions& experiment, const PlanOptions& plan, const ClusterPlanOptions& options,
                 bool json) {
  const experiment::LoadedExperiment loaded =
      experiment::load_experiment(experiment.config, experiment.sets, load_plugin);
  cluster::Tables tables = cluster::builtin_tables();
  const cluster::Cluster machines = cluster_for(plan, options, tables);
  const cluster::Transformer model = transformer_of(loaded);
  const cluster::SearchRequest request{
      .model = model,
      .cluster = machines,
      .world = plan.world,
      .global_batch = options.global_batch > 0 ? options.global_batch : global_batch_of(loaded, plan.world),
      .memory_bytes = plan.memory_gib.value_or(machines.device.memory_gib) * kGiB,
      .precision = precision_of(loaded)};
  const cluster::SearchResult result = cluster::search_layouts(request);
  refuse_if_nothing_fits(request, result);
  const cluster::Interruptions interruptions = cluster::interruptions_of(tables, model, plan.world, options.nodes_of);
  cluster::Goodput goodput = cluster::best_goodput(interruptions);
  goodput.num_spares = cluster::spare_nodes(interruptions.mean_time_between, tables.recovery.repair_hours * kHour);
  const cluster::ReportSubject subject{.experiment = loaded.experiment.name,
                                       .request = request,
                                       .result = result,
                                       .own = own_candidate(loaded, request),
                                       .interruptions = interruptions,
                                       .goodput = goodput,
                                       .cost_per_hour = plan.cost_per_hour.value_or(0),
                                       .explains = options.explain};
  if (!options.html.empty()) core::write_file_atomically(options.html, cluster::format_html(subject));
  if (json)
    std::printf("%s\n", cluster::format_json(subject).c_str());
  else
    core::print(stdout, "%s", cluster::format_report(subject).c_str());
  return core::kExitDone;
}

}  // namespace trainctl::cli
