#include "cluster/step.h"

#include <catch2/catch.hpp>

#include "cases.h"
#include "cluster/memory.h"

namespace trainctl::cluster {
namespace {

/// A pipeline whose stages take equally long: no embedding or head to speak of, and transfers of no time.
Run even_pipeline(std::int64_t ranks, std::int64_t micro_batches) {
  Run run{.model = gpt(ranks * 12, 8192, 64),
          .layout = {.tensor = 1, .pipeline = ranks, .num_micro_batches = micro_batches},
          .machines = machines("h100", "torchtitan")};
  run.model.vocab_size = 64;
  run.model.position_embeddings = false;
  run.machines.network.port_gbs = run.machines.network.link_gbs = 1e9;
  run.machines.latencies = {.base_us = 0, .step_within_us = 0, .step_between_us = 0, .straggler_sigma = 0};
  return run;
}

double bubble_share(const StepTime& step) {
  return step.bubble / (step.bubble + step.computed);
}

TEST_CASE("the bubble of equal stages is (p - 1) / (m + p - 1), and shorter with several stages a rank", "[cluster]") {
  for (const std::int64_t p : {2, 4, 8})
    for (const std::int64_t m : {p, 4 * p, 32 * p}) {
      INFO(p << " ranks, " << m << " micro-batches");
      Run run = even_pipeline(p, m);
      const auto idle = static_cast<double>(p - 1);
      for (const ScheduleKind kind : {ScheduleKind::one_forward_one_backward, ScheduleKind::gpipe}) {
        run.layout.schedule = kind;
        CHECK(bubble_share(step_time(run.setup())) == Approx(idle / (static_cast<double>(m) + idle)).epsilon(0.01));
      }
      run.layout.schedule = ScheduleKind::interleaved;
      run.layout.stages_per_rank = 2;
      const double interleaved = bubble_share(step_time(run.setup()));
      CHECK(interleaved == Approx(idle / (2 * static_cast<double>(m) + idle)).epsilon(0.01));
      run.layout.schedule = ScheduleKind::zero_bubble_v;
      CHECK(bubble_share(step_time(run.setup())) < interleaved);
    }
}

TEST_CASE("a long step is extrapolated from short ones as it would be simulated", "[cluster]") {
  Run run = gpt_310b();
  run.layout.data = 1;
  const auto pipeline = [&](std::int64_t micro_batches) {
    run.layout.num_micro_batches = micro_batches;
    return step_time(run.setup()).pipeline();
  };
  const double round = pipeline(6 * 16) - pipeline(5 * 16);  // 96 is simulated in full
  CHECK(pipeline(144) == Approx(pipeline(96) + 3 * round).epsilon(1e-9));
}

TEST_CASE("layers are dealt as Megatron deals them", "[cluster]") {
  CHECK(deal_layers(8, {.pipeline = 4}) == std::vector<std::int64_t>{2, 2, 2, 2});
  CHECK(deal_layers(126, {.pipeline = 8, .stages_per_rank = 1}) ==
        std::vector<std::int64_t>{15, 16, 16, 16, 16, 16, 16, 15});
  CHECK(deal_layers(7, {.pipeline = 3}) == std::vector<std::int64_t>{2, 3, 2});
  CHECK(deal_layers(5, {.pipeline = 3}) == std::vector<std::int64_t>{2, 2, 1});
  // BLOOM's log: of 78 layers on 12 stages "the last stage has 1 block, while the rest have 7".
  Run run{.model = gpt(78, 13824, 64), .layout = {.pipeline = 12}, .machines = machines("a100_80", "megatron")};
  CHECK(deal_layers(run.setup()) == std::vector<std::int64_t>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1});
  run.machines = machines("a100_80", "megatron_2022");
  CHECK(deal_layers(run.setup()) == deal_layers(78, run.layout));
  const Layout v{.pipeline = 3, .stages_per_rank = 2, .schedule = ScheduleKind::zero_bubble_v};
  CHECK(rank_of_stage(3, v) == 2);
  CHECK(rank_of_stage(5, v) == 0);
}

TEST_CASE("what makes a step adds up to it", "[cluster]") {
  for (const Run& run : {gpt_310b(), even_pipeline(4, 16)}) {
    const StepTime step = step_time(run.setup());
    CHECK(step.total == Approx(step.computed + step.bubble + step.exposed_shards + step.exposed_copies +
                               step.exposed_tied + step.optimizer));
    CHECK(least_step_time(run.setup()) <= step.total);
  }
}

TEST_CASE("predictions of published runs stay as they were scored", "[cluster]") {
  const StepTime gpt = step_time(gpt_310b().setup());
  CHECK(gpt.total == Approx(36.2982).epsilon(1e-3));
  CHECK(peak_memory(gpt_310b().setup()).total() == Approx(81'287'375'450).epsilon(1e-3));

  Run korthikanti = gpt_310b();  // https://arxiv.org/abs/2205.05198, 175B on 64 A100
  korthikanti.model = cluster::gpt(96, 12288, 96);
  korthikanti.layout.data = 1;
  korthikanti.layout.pipeline = 8;
  korthikanti.layout.stages_per_rank = 3;
  korthikanti.layout.num_micro_batches = 64;
  korthikanti.layout.recomputation = Recomputation::attention;
  korthikanti.layout.sequence_parallel = true;
  korthikanti.machines = machines("a100_80", "megatron_2022");
  CHECK(step_time(korthikanti.setup()).total == Approx(12.93689).epsilon(1e-3));

  Run titan{.model = llama3(32, 4096, 32, 14336),
            .layout = {.data = 8,
                       .micro_batch = 2,
                       .zero = 3,
                       .fully_sharded = true,
                       .recomputation = Recomputation::per_op,
                       .precision = Precision::fp8,
                       .quantization = Quantization::tensorwise},
            .machines = machines("h100_500w", "torchtitan")};
  CHECK(step_time(titan.setup()).total == Approx(1.994995).epsilon(1e-3));
}

TEST_CASE("predictions of published runs of newer frameworks stay as they were scored", "[cluster]") {
  Run bridge{.model = llama3(126, 16384, 128, 53248),  // Megatron-Bridge, Llama 3 405B on 256 GB300
             .layout = {.data = 8,
                        .tensor = 4,
                        .pipeline = 8,
                        .stages_per_rank = 4,
                        .schedule = ScheduleKind::interleaved,
                        .num_micro_batches = 192,
                        .zero = 1,
                        .sequence_parallel = true,
                        .precision = Precision::nvfp4,
                        .quantization = Quantization::nvfp4},
             .machines = machines("gb300", "transformer_engine")};
  bridge.machines.software.communication.chunks_tensor_parallel = false;
  CHECK(step_time(bridge.setup()).total == Approx(35.604452).epsilon(1e-3));

  Run simumax{.model = llama3(12, 8192, 64, 28672),  // SimuMax, 8 B200
              .layout = {.data = 4, .tensor = 2, .num_micro_batches = 4, .zero = 1, .sequence_parallel = true},
              .machines = machines("b200", "megatron_core")};
  simumax.model.sequence_length = 4096;
  CHECK(step_time(simumax.setup()).total == Approx(0.73416).epsilon(1e-3));

  Run titan{.model = llama3(32, 4096, 32, 14336),  // torchtitan, 65,536 tokens on 8 H100 in pairs
            .layout = {.data = 4,
                       .context = 2,
                       .zero = 3,
                       .fully_sharded = true,
                       .recomputation = Recomputation::full,
                       .precision = Precision::fp8,
                       .quantization = Quantization::tensorwise},
            .machines = machines("h100_500w", "torchtitan")};
  titan.model.sequence_length = 65536;
  CHECK(step_time(titan.setup()).total == Approx(13.461502).epsilon(1e-3));

  Run nanotron{.model = llama3(24, 2048, 32, 4096),  // bench_cluster, a Llama of 1B on 16 H100
               .layout = {.pipeline = 16, .num_micro_batches = 1024, .zero = 1},
               .machines = machines("h100", "nanotron")};
  nanotron.model.num_kv_heads = 32;
  nanotron.model.vocab_size = 50257;
  nanotron.model.sequence_length = 4096;
  nanotron.model.tied = true;
  CHECK(step_time(nanotron.setup()).total == Approx(48.456178).epsilon(1e-3));
}

}  // namespace
}  // namespace trainctl::cluster
