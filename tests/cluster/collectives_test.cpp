#include "cluster/collectives.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "cases.h"
#include "cluster/step.h"

namespace trainctl::cluster {
namespace {

TEST_CASE("a ring within a node takes 2 (n - 1) / n times the bytes over the bandwidth", "[cluster]") {
  Cluster cluster = machines("h100", "megatron");
  cluster.latencies = {.base_us = 0, .step_within_us = 0, .step_between_us = 0, .tree_level_us = 0};
  const Collectives collectives(cluster);
  const RankGroup node{.num_ranks = 8, .ranks_within_node = 8};
  const double bandwidth = cluster.network.link_gbs * 1e9;
  CHECK(collectives.sum(1e9, node) == Approx(2 * 7.0 / 8 * 1e9 / bandwidth));
  CHECK(collectives.gather(1e9, node) == Approx(7.0 / 8 * 1e9 / bandwidth));
  CHECK(collectives.sum(1e9, {.num_ranks = 1, .ranks_within_node = 1}) == 0);
}

TEST_CASE("between nodes a ring is as fast as the ports of its ranks in one node", "[cluster]") {
  Cluster cluster = machines("h100", "megatron");
  cluster.latencies = {.base_us = 0, .step_within_us = 0, .step_between_us = 0, .tree_level_us = 0};
  const Collectives collectives(cluster);
  const double port = cluster.network.port_gbs * cluster.network.port_efficiency * 1e9;
  CHECK(collectives.gather(1e9, {.num_ranks = 16, .ranks_within_node = 1}) == Approx(15.0 / 16 * 1e9 / port));
  CHECK(collectives.gather(1e9, {.num_ranks = 16, .ranks_within_node = 4}) == Approx(15.0 / 16 * 1e9 / (4 * port)));
  CHECK(collectives.transfer(1e9, /*between_nodes=*/true) == Approx(1e9 / port));
}

TEST_CASE("few ranks of a node attain a part of its links' bandwidth", "[cluster]") {
  Cluster cluster = machines("a100_80", "megatron");
  cluster.latencies = {.base_us = 0, .step_within_us = 0, .step_between_us = 0, .tree_level_us = 0};
  const Collectives collectives(cluster);
  CHECK(collectives.gather(1e9, {.num_ranks = 2, .ranks_within_node = 2}) == Approx(1.0 / 2 * 1e9 / 197e9));
  CHECK(collectives.gather(1e9, {.num_ranks = 4, .ranks_within_node = 4}) == Approx(3.0 / 4 * 1e9 / 222e9));
  CHECK(collectives.gather(1e9, {.num_ranks = 8, .ranks_within_node = 8}) == Approx(7.0 / 8 * 1e9 / 235e9));
}

TEST_CASE("gathers have the bandwidth and the step that their network states, and sums have the link's", "[cluster]") {
  const Cluster cluster = machines("b200", "megatron_core");
  const Collectives collectives(cluster);
  const RankGroup node{.num_ranks = 8, .ranks_within_node = 8};
  CHECK(collectives.gather(1e9, node) == Approx(7.0 / 8 * 1e9 / 606e9 + (25 + 7 * 8.6) * 1e-6));
  CHECK(collectives.sum(1e9, node) == Approx(2 * 7.0 / 8 * 1e9 / 680e9 + (25 + 2 * 7 * 5) * 1e-6));
}

TEST_CASE("a small sum takes the tree between many nodes, and a step of the ring costs its latency", "[cluster]") {
  const Cluster cluster = machines("h100", "megatron");
  const Collectives collectives(cluster);
  const RankGroup nodes{.num_ranks = 1024, .ranks_within_node = 8};
  CHECK(collectives.sum(1, nodes) == Approx((25 + 2 * 7 * 5 + 2 * 7 * 28) * 1e-6).epsilon(1e-3));
  CHECK(collectives.gather(1, nodes) == Approx((25 + 896 * 5 + 128 * 14) * 1e-6).epsilon(1e-3));
}

TEST_CASE("more bandwidth is never slower", "[cluster]") {
  Run run = gpt_310b();
  double before = INFINITY;
  for (const double port : {1.0, 3.0, 12.5, 25.0, 50.0, 100.0}) {
    run.machines.network.port_gbs = port;
    const double now = step_time(run.setup()).total;
    CHECK(now <= before);
    before = now;
  }
  for (const double link : {300.0, 600.0, 1200.0}) {
    run.machines.network.link_gbs = link;
    const double now = step_time(run.setup()).total;
    CHECK(now <= before);
    before = now;
  }
}

TEST_CASE("the slowest of many devices is slower than the mean", "[cluster]") {
  const Latencies latencies{.straggler_sigma = 0.02};
  CHECK(straggler_factor(latencies, 1) == 1);
  CHECK(straggler_factor(latencies, 8) == Approx(1 + 0.02 * 1.4236).epsilon(1e-3));  // of normal order statistics
  CHECK(straggler_factor(latencies, 1024) == Approx(1 + 0.02 * 3.24).epsilon(3e-3));
}

}  // namespace
}  // namespace trainctl::cluster
