#include "plan/rehearsal/rehearse.h"

#include <catch2/catch.hpp>

#include "experiment/load.h"
#include "plan/dry_run.h"
#include "replay/replay.h"
#include "support/temporary_directory.h"

namespace trainctl::plan {
namespace {

using replay::Collective;

experiment::Experiment experiment_of_ranks(const std::vector<std::string>& sets) {
  const testing::TemporaryDirectory directory;
  return experiment::load_experiment(
             directory.write("exp.yaml",
                             "name: rehearsed\ndevice: {kind: cpu, num_threads: 1}\n"
                             "dataset: {kind: synthetic_tokens, num_samples: 256, num_eval_samples: 0, seq_len: 16, "
                             "vocab_size: 512, batch_size: 1}\n"
                             "model: {kind: llama, hidden_size: 64, num_layers: 4, num_heads: 4, num_key_value_heads: "
                             "2, intermediate_size: 128, max_position_embeddings: 16}\n"
                             "task: {kind: causal_lm}\n"
                             "train: {steps: 2}\n"),
             sets)
      .experiment;
}

std::vector<replay::RankTrace> rehearsed(const std::vector<std::string>& sets, std::int64_t world,
                                         std::int64_t per_node = 8) {
  std::vector<tracking::Notice> notices;
  return rehearse(experiment_of_ranks(sets), {.world = world, .per_node = per_node, .warmup = 1, .steps = 2}, notices);
}

/// Returns the communications of this kind that carry more than counts and losses.
std::vector<replay::Communication> large(const replay::RankTrace& trace, Collective kind) {
  std::vector<replay::Communication> found;
  for (const replay::Communication& one : trace.communications)
    if (one.kind == kind && one.bytes > 256) found.push_back(one);
  return found;
}

double bytes_in(const std::vector<replay::Communication>& list) {
  double bytes = 0;
  for (const replay::Communication& one : list) bytes += one.bytes;
  return bytes;
}

double whole_bytes() {
  return 4 * static_cast<double>(dry_run_step(experiment_of_ranks({"distributed.kind=none"})).num_parameters);
}

}  // namespace

TEST_CASE("replicas sum each gradient once a step, in buckets, after the last micro-batch", "[plan]") {
  const std::vector<std::string> wide{"model.hidden_size=256", "model.intermediate_size=1024"};
  const auto sums_of = [&](const std::string& distributed) {
    std::vector<std::string> sets = wide;
    sets.push_back("distributed=" + distributed);
    sets.emplace_back("accumulation.steps=3");
    const std::vector<replay::RankTrace> traces = rehearsed(sets, 2);
    REQUIRE(traces.size() == 1);
    return large(traces.front(), Collective::all_reduce);
  };
  const double whole =
      4 * static_cast<double>(
              dry_run_step(experiment_of_ranks({wide[0], wide[1], "distributed.kind=none"})).num_parameters);
  const std::vector<replay::Communication> sums = sums_of("{kind: ddp, bucket_mib: 1}");
  CHECK(sums.size() > 4);
  CHECK(bytes_in(sums) == whole);
  CHECK(sums.front().members == std::vector<std::int64_t>{0, 1});
  CHECK(bytes_in(sums_of("{kind: ddp, gradient_compression: {kind: bf16}}")) == Approx(whole / 2).margin(4));
}

TEST_CASE("all that is started is waited for, and the rank computes between", "[plan]") {
  for (const char* distributed : {"{kind: ddp}", "{kind: zero, stage: 1}", "{kind: zero, stage: 3}",
                                  "{kind: ddp, tensor: 2}", "{kind: ddp, context: 2}", "{kind: ddp, pipeline: 2}"}) {
    CAPTURE(distributed);
    const auto traces =
        rehearsed({"distributed=" + std::string(distributed), "accumulation.steps=4", "dataset.batch_size=2"}, 2);
    for (const replay::RankTrace& trace : traces) {
      std::vector<int> open(trace.communications.size(), 0);
      double computed = trace.compute_s_after;
      for (const replay::Event& event : trace.events) {
        computed += event.compute_s;
        open[event.communication] += event.waits ? -1 : 1;
      }
      CHECK(std::count(open.begin(), open.end(), 0) == static_cast<std::ptrdiff_t>(open.size()));
      CHECK(computed > 0);
      CHECK(trace.receipts_queue);
    }
    const replay::StepReplay step = replay::replay(traces, [](const auto&) { return replay::Cost{}; });
    CHECK(step.step_s >= step.ranks[0].compute_s);
  }
}

TEST_CASE("ranks of a pipeline send what their neighbours receive", "[plan]") {
  const auto traces = rehearsed({"distributed={kind: ddp, pipeline: 2}", "accumulation.steps=4"}, 4);
  REQUIRE(traces.size() == 2);
  CHECK(traces[0].rank == 0);
  CHECK(traces[1].rank == 2);
  const auto forms = [](std::vector<replay::Communication> list, Collective as) {
    for (replay::Communication& one : list) one.kind = as;
    return list;
  };
  const auto sent = large(traces[0], Collective::send);
  CHECK(sent.size() == 4);
  CHECK(sent.front().bytes == 16 * 64 * 4);
  CHECK(forms(sent, Collective::receive) == large(traces[1], Collective::receive));
  CHECK(forms(large(traces[1], Collective::send), Collective::receive) == large(traces[0], Collective::receive));
}

TEST_CASE("sharded parameters are gathered for both passes, and their gradients summed", "[plan]") {
  const auto traces = rehearsed({"distributed={kind: zero, stage: 3}"}, 4);
  CHECK(bytes_in(large(traces[0], Collective::all_gather)) >= 1.5 * whole_bytes());
  CHECK(bytes_in(large(traces[0], Collective::all_reduce)) == Approx(whole_bytes()).epsilon(0.01));
}

TEST_CASE("replicas in threads of one process are not rehearsed", "[plan]") {
  CHECK_THROWS_WITH(rehearsed({"distributed={kind: local_replicas}"}, 2),
                    Catch::Matchers::Contains("local_replicas has its replicas in one process"));
}

}  // namespace trainctl::plan
