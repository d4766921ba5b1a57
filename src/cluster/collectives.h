// Times of transfers and collectives between the ranks of a cluster.
#pragma once

#include <cstdint>

#include "cluster/tables.h"

namespace trainctl::cluster {

/// Ranks that take part in one collective.
struct RankGroup {
  double num_ranks = 1;
  double ranks_within_node = 1;
};

/// Computes times in seconds. Keeps references to the cluster, which must outlive it.
class Collectives {
 public:
  explicit Collectives(const Cluster& cluster) : cluster_(cluster) {}

  const Network& network() const { return cluster_.network; }

  /// Times of a ring: `bytes` are those of the whole tensor.
  double gather(double bytes, const RankGroup& group) const;
  double scatter(double bytes, const RankGroup& group) const { return gather(bytes, group); }
  /// Time of a sum over a ring, or over a tree between nodes if its latency is shorter.
  double sum(double bytes, const RankGroup& group) const;
  /// Time of one rank's message to another.
  double transfer(double bytes, bool between_nodes) const;

 private:
  /// Returns bytes per second of a ring whose ranks' link within a node has `link_gbs`.
  double bandwidth(double link_gbs, const RankGroup& group) const;

  const Cluster& cluster_;
};

/// How much longer the slowest of `num_devices` computes than the mean one. Speeds are normally distributed; the
/// expected maximum is Blom's approximation.
double straggler_factor(const Latencies& latencies, std::int64_t num_devices);

}  // namespace trainctl::cluster
