#include "cluster/collectives.h"

#include <algorithm>
#include <cmath>

namespace trainctl::cluster {
namespace {

double ranks_within(const RankGroup& group) {
  return std::clamp(group.ranks_within_node, 1.0, group.num_ranks);
}

double num_nodes(const RankGroup& group) {
  return std::ceil(group.num_ranks / ranks_within(group));
}

/// Microseconds of the steps of one turn around the ring.
double ring_steps(const Latencies& latencies, const RankGroup& group, double step_within_us) {
  const double nodes = num_nodes(group);
  return (group.num_ranks - nodes) * step_within_us + (nodes > 1 ? nodes * latencies.step_between_us : 0);
}

/// Few ranks of a node don't fill its links. Returns the bandwidth of the smallest group that has as many ranks.
double link_of(const Network& network, const RankGroup& group) {
  const SmallGroup* best = nullptr;
  for (const SmallGroup& small : network.small_groups)
    if (ranks_within(group) <= static_cast<double>(small.ranks) && (best == nullptr || small.ranks < best->ranks))
      best = &small;
  return best == nullptr ? network.link_gbs : best->link_gbs;
}

}  // namespace

double Collectives::bandwidth(double link_gbs, const RankGroup& group) const {
  const Network& network = cluster_.network;
  const double within = link_gbs * 1e9;
  if (num_nodes(group) <= 1) return within;
  return std::min(within, ranks_within(group) * network.port_gbs * 1e9 * network.port_efficiency);
}

double Collectives::gather(double bytes, const RankGroup& group) const {
  if (group.num_ranks <= 1 || bytes <= 0) return 0;
  const Latencies& latencies = cluster_.latencies;
  const Network& network = cluster_.network;
  const double link = link_of(network, group);
  const double rate = bandwidth(std::min(link, network.gather_gbs.value_or(link)), group);
  const double step = network.gather_step_us.value_or(latencies.step_within_us);
  const double latency = latencies.base_us + ring_steps(latencies, group, step);
  return bytes * (group.num_ranks - 1) / group.num_ranks / rate + latency * 1e-6;
}

double Collectives::sum(double bytes, const RankGroup& group) const {
  if (group.num_ranks <= 1 || bytes <= 0) return 0;
  const Latencies& latencies = cluster_.latencies;
  double latency = latencies.base_us + 2 * ring_steps(latencies, group, latencies.step_within_us);
  if (const double nodes = num_nodes(group); nodes > 1) {
    latency = std::min(latency, latencies.base_us + 2 * (ranks_within(group) - 1) * latencies.step_within_us +
                                    2 * std::log2(nodes) * latencies.tree_level_us);
  }
  return 2 * bytes * (group.num_ranks - 1) / group.num_ranks / bandwidth(link_of(cluster_.network, group), group) +
         latency * 1e-6;
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
