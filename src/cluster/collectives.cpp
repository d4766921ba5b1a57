#include "cluster/collectives.h"

#include <algorithm>
#include <cmath>

namespace trainctl::cluster {
namespace {

double num_nodes(const RankGroup& group) {
  return std::ceil(group.num_ranks / std::clamp(group.ranks_within_node, 1.0, group.num_ranks));
}

/// Microseconds of the steps of one turn around the ring.
double ring_steps(const Latencies& latencies, const RankGroup& group) {
  const double nodes = num_nodes(group);
  return (group.num_ranks - nodes) * latencies.step_within_us + (nodes > 1 ? nodes * latencies.step_between_us : 0);
}

}  // namespace

double Collectives::bandwidth(const RankGroup& group) const {
  const Network& network = cluster_.network;
  const double within = network.link_gbs * 1e9;
  if (num_nodes(group) <= 1) return within;
  const double ports = std::clamp(group.ranks_within_node, 1.0, group.num_ranks);
  return std::min(within, ports * network.port_gbs * 1e9 * network.port_efficiency);
}

double Collectives::gather(double bytes, const RankGroup& group) const {
  if (group.num_ranks <= 1 || bytes <= 0) return 0;
  const double latency = cluster_.latencies.base_us + ring_steps(cluster_.latencies, group);
  return bytes * (group.num_ranks - 1) / group.num_ranks / bandwidth(group) + latency * 1e-6;
}

double Collectives::sum(double bytes, const RankGroup& group) const {
  if (group.num_ranks <= 1 || bytes <= 0) return 0;
  const Latencies& latencies = cluster_.latencies;
  double latency = latencies.base_us + 2 * ring_steps(latencies, group);
  if (const double nodes = num_nodes(group); nodes > 1) {
    const double within = std::clamp(group.ranks_within_node, 1.0, group.num_ranks);
    latency = std::min(latency, latencies.base_us + 2 * (within - 1) * latencies.step_within_us +
                                    2 * std::log2(nodes) * latencies.tree_level_us);
  }
  return 2 * bytes * (group.num_ranks - 1) / group.num_ranks / bandwidth(group) + latency * 1e-6;
}

double Collectives::transfer(double bytes, bool between_nodes) const {
  const Network& network = cluster_.network;
  const double rate = between_nodes ? network.port_gbs * network.port_efficiency : network.link_gbs;
  const double latency = between_nodes ? cluster_.latencies.step_between_us : cluster_.latencies.base_us;
  return bytes / (rate * 1e9) + latency * 1e-6;
}

double straggler_factor(const Latencies& latencies, std::int64_t num_devices) {
  if (num_devices < 2) return 1;
  const double n = static_cast<double>(num_devices);
  const double t = std::sqrt(-2 * std::log(1 - (n - 0.375) / (n + 0.25)));
  // Abramowitz and Stegun 26.2.23: the normal distribution's quantile.
  const double quantile =
      t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t);
  return 1 + latencies.straggler_sigma * quantile;
}

}  // namespace trainctl::cluster
