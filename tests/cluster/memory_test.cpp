#include "cluster/memory.h"

#include <catch2/catch.hpp>

#include "cases.h"

namespace trainctl::cluster {
namespace {

Run llama_8b(Recomputation recomputation) {
  return {.model = llama3(32, 4096, 32, 14336),
          .layout = {.data = 8, .zero = 3, .fully_sharded = true, .recomputation = recomputation},
          .machines = machines("h100", "torchtitan")};
}

double peak_gib(const Run& run) {
  return peak_memory(run.setup()).total() / (1 << 30);
}

TEST_CASE("recomputing more keeps less", "[cluster]") {
  const double none = peak_gib(llama_8b(Recomputation::none));
  const double per_op = peak_gib(llama_8b(Recomputation::per_op));
  const double full = peak_gib(llama_8b(Recomputation::full));
  CHECK(none > per_op);
  CHECK(per_op > full);
}

TEST_CASE("each stage but the last keeps the outputs that are in flight", "[cluster]") {
  Run run{.model = gpt(16, 1024, 16),
          .layout = {.pipeline = 4, .num_micro_batches = 16, .precision = Precision::fp16},
          .machines = machines("a100_80", "megatron")};
  const auto with = memory_of_ranks(run.setup());
  run.machines.software.memory.keeps_stage_outputs = false;
  const auto without = memory_of_ranks(run.setup());
  const double output = 2048.0 * 1024 * 2;  // tokens, features, bytes
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const double in_flight = rank < 3 ? 4.0 - static_cast<double>(rank) : 0;
    CHECK(with[rank].activations - without[rank].activations == Approx(in_flight * output).margin(1));
  }
  run.layout.stages_per_rank = 2;
  run.layout.schedule = ScheduleKind::interleaved;
  const double kept = peak_memory(run.setup()).activations;
  run.machines.software.memory.keeps_stage_outputs = true;
  CHECK(peak_memory(run.setup()).activations == kept);
}

TEST_CASE("torchtitan gathers all parameters of a stage, since a pipeline doesn't shard them again", "[cluster]") {
  Run run = llama_8b(Recomputation::full);
  run.layout.data = 4;
  run.layout.pipeline = 2;
  run.layout.num_micro_batches = 8;
  const double gathered = peak_memory(run.setup()).states;
  run.machines.software.memory.gathered_in_pipeline = 0;
  CHECK(gathered > peak_memory(run.setup()).states);
}

}  // namespace
}  // namespace trainctl::cluster
