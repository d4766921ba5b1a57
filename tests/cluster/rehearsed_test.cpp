#include "cluster/rehearsed.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cases.h"

namespace trainctl::cluster {
namespace {

using replay::Collective;

replay::Communication among(Collective kind, std::vector<std::int64_t> members) {
  return {.kind = kind, .axes = "some", .bytes = 1e9, .members = std::move(members)};
}

TEST_CASE("a recorded communication costs what the collective does between those nodes", "[cluster]") {
  const Cluster cluster = machines("h100", "megatron");
  const Collectives collectives(cluster);
  const auto whole = [&](const replay::Communication& what, std::int64_t nodes_of) {
    const replay::Cost cost = cost_of(what, collectives, nodes_of);
    CHECK(cost.device_share == cluster.network.multiprocessor_share);
    return cost.link_s + cost.delay_s;
  };
  const RankGroup node{.num_ranks = 4, .ranks_within_node = 4};
  const RankGroup nodes{.num_ranks = 4, .ranks_within_node = 2};
  CHECK(whole(among(Collective::all_reduce, {0, 1, 2, 3}), 8) == Approx(collectives.sum(1e9, node)));
  CHECK(whole(among(Collective::all_gather, {0, 1, 2, 3}), 2) == Approx(collectives.gather(1e9, nodes)));
  CHECK(whole(among(Collective::reduce_scatter, {0, 1, 2, 3}), 2) == Approx(collectives.scatter(1e9, nodes)));
  CHECK(whole(among(Collective::send, {1, 2}), 2) == Approx(collectives.transfer(1e9, /*between_nodes=*/true)));
  CHECK(whole(among(Collective::receive, {0, 1}), 2) == Approx(collectives.transfer(1e9, /*between_nodes=*/false)));
}

TEST_CASE("while a gathering stalls, others may use the link", "[cluster]") {
  Cluster cluster = machines("h100", "megatron");
  cluster.network.gather_gbs = cluster.network.link_gbs / 2;
  const Collectives collectives(cluster);
  const replay::Cost cost = cost_of(among(Collective::all_gather, {0, 1, 2, 3}), collectives, 8);
  CHECK(cost.link_s == Approx(0.75 * 1e9 / (cluster.network.link_gbs * 1e9)));
  CHECK(cost.delay_s > cost.link_s);
}

TEST_CASE("the report of a rehearsal names what each rank waits for", "[cluster]") {
  const RehearsedStep rehearsed{
      .experiment = "mine",
      .world = 4,
      .nodes_of = 2,
      .network = "slow",
      .step = {.ranks = {{.rank = 0, .compute_s = 0.5, .bubble_s = 0.1, .exposed_s = {{"data", 0.25}, {"tensor", 0}}}},
               .step_s = 0.85}};
  const std::string text = format_rehearsed(rehearsed);
  CHECK_THAT(text, Catch::Matchers::Contains("mine: 4 ranks, 2 of a node"));
  CHECK_THAT(text, Catch::Matchers::Contains("step 850.0 ms"));
  CHECK_THAT(text, Catch::Matchers::Contains("data 250.0") && !Catch::Matchers::Contains("tensor"));
  const auto json = nlohmann::json::parse(format_rehearsed_json(rehearsed));
  CHECK(json["step_ms"] == Approx(850));
  CHECK(json["ranks"][0]["exposed_ms_by_axes"]["data"] == Approx(250));
}

}  // namespace
}  // namespace trainctl::cluster
