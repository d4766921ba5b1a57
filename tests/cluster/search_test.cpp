#include "cluster/search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "cases.h"
#include "cluster/explain.h"
#include "cluster/report.h"
#include "core/error.h"

namespace trainctl::cluster {
namespace {

using Catch::Contains;

constexpr double kGiB = 1 << 30;

SearchResult search(const Transformer& model, const Cluster& cluster, std::int64_t world, std::int64_t batch,
                    double memory_gib) {
  return search_layouts(
      {.model = model, .cluster = cluster, .world = world, .global_batch = batch, .memory_bytes = memory_gib * kGiB});
}

TEST_CASE("the search finds the only layout that fits", "[cluster]") {
  const Transformer model = gpt(24, 4096, 32);
  const Cluster cluster = machines("h100", "trainctl");
  const SearchResult all = search(model, cluster, 8, 64, 1e6);
  REQUIRE(all.smallest);
  CHECK(all.num_fitting == all.num_layouts);
  const double least = all.smallest_bytes / kGiB;
  const SearchResult one = search(model, cluster, 8, 64, least);
  REQUIRE(one.num_fitting >= 1);
  REQUIRE(!one.best.empty());
  CHECK(one.best.front().memory.total() <= least * kGiB);
  CHECK(search(model, cluster, 8, 64, least * 0.999).best.empty());
}

TEST_CASE("no layout that the search leaves unsimulated is faster than the best ones", "[cluster]") {
  const Transformer model = gpt(32, 4096, 32);
  const Cluster cluster = machines("a100_80", "trainctl");
  const SearchResult few = search(model, cluster, 32, 128, 79);
  SearchRequest every{.model = model,
                      .cluster = cluster,
                      .world = 32,
                      .global_batch = 128,
                      .memory_bytes = 79 * kGiB,
                      .num_best = 1'000'000};
  const SearchResult all = search_layouts(every);
  REQUIRE(all.best.size() == static_cast<std::size_t>(all.num_fitting));
  REQUIRE(few.num_simulated < all.num_simulated);
  for (std::size_t i = 0; i < few.best.size(); ++i) CHECK(few.best[i].step.total == Approx(all.best[i].step.total));
}

TEST_CASE("every layout of a search uses the whole world and batch, and no tensor rank leaves its node", "[cluster]") {
  const Cluster cluster = machines("h100", "trainctl");
  const Transformer model = llama3(32, 4096, 32, 14336);
  for (const Candidate& one : search(model, cluster, 64, 256, 79).best) {
    CHECK(one.layout.world() == 64);
    CHECK(one.layout.global_batch() == 256);
    CHECK(one.layout.tensor <= 8);
    CHECK_NOTHROW(check_layout(model, one.layout));
  }
}

TEST_CASE("a larger batch is divided into all micro-batches that a smaller one has", "[cluster]") {
  const Transformer model = gpt(12, 768, 12);
  const Cluster cluster = machines("h100", "trainctl");
  const auto micro_batches = [&](std::int64_t batch) {
    std::set<std::int64_t> sizes;
    SearchRequest request{.model = model,
                          .cluster = cluster,
                          .world = 1,
                          .global_batch = batch,
                          .memory_bytes = 79 * kGiB,
                          .num_best = 1'000'000};
    for (const Candidate& one : search_layouts(request).best) sizes.insert(one.layout.micro_batch);
    return sizes;
  };
  const std::set<std::int64_t> of_48 = micro_batches(48);
  const std::set<std::int64_t> of_96 = micro_batches(96);
  CHECK(of_48.contains(48));
  CHECK(std::includes(of_96.begin(), of_96.end(), of_48.begin(), of_48.end()));
}

TEST_CASE("a trillion parameters on 256 devices keep 92 % of a row's rate", "[cluster]") {
  const Transformer model = gpt(128, 25600, 160);
  const Cluster cluster = machines("h200", "trainctl");
  const SearchResult result = search(model, cluster, 256, 3072, cluster.device.memory_gib);
  REQUIRE(!result.best.empty());
  const Setup setup{.model = model, .layout = result.best.front().layout, .cluster = cluster};
  CHECK(scaling_efficiency(setup, result.best.front().step) >= 0.92);
}

TEST_CASE("impossible worlds and topologies are refused in one line", "[cluster]") {
  const Cluster cluster = machines("h100", "trainctl");
  CHECK_THROWS_WITH(search(gpt(4, 512, 8), cluster, 7, 64, 79), Contains("no layout divides 7 devices, 64 sequences"));
  CHECK_THROWS_WITH(check_topology(cluster.network, 20, 8), Contains("20 devices are not whole nodes of 8"));
  CHECK_THROWS_WITH(check_topology(cluster.network, 32, 16), Contains("joins 8 devices, got nodes of 16"));
  Network slow = cluster.network;
  slow.link_gbs = 10;
  CHECK_THROWS_WITH(check_topology(slow, 16, 8), Contains("port_gbs: 50 is above link_gbs, 10"));
  CHECK_NOTHROW(check_topology(slow, 8, 8));
  CHECK_THROWS_WITH(check_layout(gpt(4, 512, 8), {.tensor = 3}),
                    Contains("distributed.tensor: 3 ranks do not divide heads 8"));
  CHECK_THROWS_WITH(check_layout(gpt(4, 512, 8), {.pipeline = 7}), Contains("layers 4"));
}

TEST_CASE("the explained terms of a step and of memory add up", "[cluster]") {
  const Run run = gpt_310b();
  const Setup setup = run.setup();
  const Candidate candidate{.layout = run.layout, .step = step_time(setup), .memory = peak_memory(setup)};
  for (const std::string section : {"step", "memory of the fullest rank"}) {
    double sum = 0;
    double together = 0;
    for (const Term& term : explain(setup, candidate)) {
      CHECK(!term.formula.empty());
      if (term.section != section) continue;
      (term.name == "together" ? together : sum) += term.value;
    }
    CHECK(sum == Approx(together));
  }
}

TEST_CASE("the YAML of a layout names each of its axes", "[cluster]") {
  const std::string yaml = layout_yaml({.data = 4,
                                        .tensor = 8,
                                        .pipeline = 2,
                                        .stages_per_rank = 2,
                                        .schedule = ScheduleKind::interleaved,
                                        .micro_batch = 2,
                                        .num_micro_batches = 16,
                                        .zero = 1,
                                        .recomputation = Recomputation::per_op,
                                        .sequence_parallel = true});
  CHECK(yaml ==
        "distributed:\n  kind: zero\n  stage: 1\n  tensor: 8\n  pipeline: 2\n  sequence_parallel: true\n"
        "  pipeline_schedule: {kind: interleaved_1f1b, stages_per_rank: 2}\n"
        "dataset:\n  batch_size: 2\naccumulation:\n  steps: 16\nactivation_checkpointing:\n  kind: selective_op\n");
}

}  // namespace
}  // namespace trainctl::cluster
