// State kept out of memory: the same bits, less of them there.
#include <fstream>

#include "core/error.h"
#include "ranks.h"
#include "runtime/memory.h"
#include "support/gpu.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::train {

using namespace testing;

namespace {

distributed::ZeroConfig offloaded(std::int64_t stage, const std::filesystem::path& directory,
                                  distributed::Offload optimizer = distributed::Offload::disk,
                                  distributed::Offload parameters = distributed::Offload::none) {
  return {.stage = stage, .offload = {.optimizer = optimizer, .parameters = parameters, .path = directory.string()}};
}

void check_same_bits(const Setting& plain, const distributed::ZeroConfig& how) {
  Setting other = plain;
  other.how = how;
  const std::vector<Result> expected = on_ranks(plain, 2, at::kFloat);
  const std::vector<Result> found = on_ranks(other, 2, at::kFloat);
  CHECK(largest_difference(found[0].weights, expected[0].weights) == 0);
  CHECK(found[0].losses == expected[0].losses);
}

/// Of a process that trains alone.
Result ten_steps_of(const experiment::Experiment& experiment) {
  const std::unique_ptr<Run> run = build_run(experiment);
  Step step(*run);
  Result result;
  for (int i = 0; i < 10; ++i) {
    const StepResult one = step(GradNorm::measure);
    result.losses.push_back(one.loss.item<double>() / static_cast<double>(one.count));
  }
  result.weights = whole_weights(*run);
  return result;
}

/// Bytes of tensors per rank for each byte of parameters: kept between steps, and the most of a step.
struct Memory {
  double kept = 0;
  double peak = 0;
};

Memory memory_of(const distributed::ZeroConfig& how, std::int64_t world_size) {
  Memory memory;
  on_ranks(world_size, [&](std::size_t rank, comm::Group& group) {
    experiment::Experiment experiment =
        experiment_of({.global_batch = 2 * world_size, .language_model = true, .how = how}, world_size);
    experiment.dataset.source =
        dataset::SyntheticTokensConfig{.num_samples = 64, .num_eval_samples = 0, .seq_len = 8, .vocab_size = 500};
    experiment.model.network = model::Gpt2Config{.hidden_size = 128,
                                                 .num_layers = 8,
                                                 .num_heads = 2,
                                                 .max_position_embeddings = 8,
                                                 .dropout = 0,
                                                 .attention_dropout = 0};
    group.barrier();
    const double before = static_cast<double>(runtime::host_memory().current);
    group.barrier();
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = world_size});
    Step step(*run);
    step(GradNorm::measure);
    group.barrier();
    const double parameters = static_cast<double>(model::num_parameters(*run->model)) * sizeof(float);
    const auto share = [&](std::int64_t bytes) {
      return (static_cast<double>(bytes) - before) / static_cast<double>(world_size) / parameters;
    };
    if (rank == 0) {
      memory.kept = share(runtime::host_memory().current);
      runtime::reset_host_peak();
    }
    group.barrier();
    step(GradNorm::measure);
    group.barrier();
    if (rank == 0) memory.peak = share(runtime::host_memory().peak);
    group.barrier();
  });
  return memory;
}

}  // namespace

TEST_CASE("state and parameters on disk change no bit", "[train][dist]") {
  const TemporaryDirectory directory;
  const std::filesystem::path& place = directory.path();
  for (const std::int64_t stage : {1, 2, 3}) {
    CAPTURE(stage);
    check_same_bits({.language_model = true, .how = distributed::ZeroConfig{.stage = stage}}, offloaded(stage, place));
    check_same_bits({.micro_batches = 2, .how = distributed::ZeroConfig{.stage = stage}}, offloaded(stage, place));
  }
  const Setting plain{.language_model = true, .how = distributed::ZeroConfig{.stage = 3}};
  check_same_bits(plain, offloaded(3, place, distributed::Offload::disk, distributed::Offload::disk));
  check_same_bits(plain, offloaded(3, place, distributed::Offload::cpu, distributed::Offload::disk));
  check_same_bits(plain, offloaded(3, "", distributed::Offload::cpu, distributed::Offload::cpu));
  CHECK(std::filesystem::is_empty(place));  // the file has no name
}

TEST_CASE("state on disk equals one process in double precision, in hybrid groups too", "[train][dist]") {
  const TemporaryDirectory directory;
  distributed::ZeroConfig how = offloaded(3, directory.path(), distributed::Offload::disk, distributed::Offload::disk);
  check_equal_to_one_process({.micro_batches = 2, .how = how}, 2);
  how.shard = std::int64_t{2};
  check_equal_to_one_process({.language_model = true, .how = how}, 4);
}

TEST_CASE("one process alone offloads too, and no bit changes", "[train][dist]") {
  const TemporaryDirectory directory;
  for (const bool language_model : {false, true}) {
    const Setting setting{.micro_batches = 2, .language_model = language_model};
    const Result expected = ten_steps_of(experiment_of(setting, 1));
    for (const std::int64_t stage : {1, 2, 3}) {
      CAPTURE(language_model, stage);
      experiment::Experiment experiment = experiment_of(setting, 1);
      experiment.distributed.how = offloaded(stage, directory.path(), distributed::Offload::disk,
                                             stage == 3 ? distributed::Offload::disk : distributed::Offload::none);
      const Result found = ten_steps_of(experiment);
      CHECK(largest_difference(found.weights, expected.weights) == 0);
      CHECK(found.losses == expected.losses);
    }
  }
}

TEST_CASE("a GPU whose state is in the host's memory, or on disk, trains as one that has it", "[train][dist][gpu]") {
  testing::need_gpu();
  const TemporaryDirectory directory;
  const auto losses = [](const distributed::DistributedKindConfig& how) {
    experiment::Experiment experiment = experiment_of({.micro_batches = 2, .language_model = true}, 1);
    experiment.device.kind = runtime::DeviceKind::cuda;
    experiment.distributed.how = how;
    return ten_steps_of(experiment).losses;
  };
  const std::vector<double> expected = losses(distributed::NotDistributedConfig{});
  for (const std::int64_t stage : {1, 2, 3})
    for (const distributed::Offload place : {distributed::Offload::cpu, distributed::Offload::disk}) {
      CAPTURE(stage, place == distributed::Offload::disk);
      const std::filesystem::path where = place == distributed::Offload::disk ? directory.path() : "";
      CHECK(largest_gap(losses(offloaded(stage, where, place)), expected) < 1e-4);
      if (stage == 3) CHECK(largest_gap(losses(offloaded(stage, where, place, place)), expected) < 1e-4);
    }
}

TEST_CASE("what is on disk is not in memory", "[train][dist]") {
  const TemporaryDirectory directory;
  constexpr std::int64_t kRanks = 2;
  const Memory plain = memory_of({.stage = 3}, kRanks);
  const Memory state = memory_of(offloaded(3, directory.path()), kRanks);
  const Memory all =
      memory_of(offloaded(3, directory.path(), distributed::Offload::disk, distributed::Offload::disk), kRanks);
  // In copies of the parameters: a part of them, and adamw's two averages of it.
  CHECK(plain.kept == Approx(3.0 / kRanks).epsilon(0.05));
  CHECK(state.kept == Approx(1.0 / kRanks).epsilon(0.05));
  CHECK(all.kept < 0.05);
  CHECK(plain.peak - state.peak == Approx(2.0 / kRanks).epsilon(0.1));
  CHECK(plain.peak - all.peak == Approx(3.0 / kRanks).epsilon(0.1));
}

TEST_CASE("a run with state on disk is saved and resumed exactly, with and without", "[train][dist]") {
  const TemporaryDirectory directory;
  const TemporaryDirectory disk;
  const distributed::ZeroConfig plain{.stage = 3};
  const distributed::ZeroConfig on_disk =
      offloaded(3, disk.path(), distributed::Offload::disk, distributed::Offload::disk);
  const auto trained = [&](const distributed::ZeroConfig& how, std::int64_t steps,
                           const std::filesystem::path& run_directory,
                           const std::optional<std::filesystem::path>& from) {
    std::vector<at::Tensor> weights;
    on_ranks(2, [&](std::size_t rank, comm::Group& group) {
      experiment::Experiment experiment = experiment_of({.language_model = true, .how = how}, 2);
      experiment.train.steps = steps;
      std::vector<tracking::Notice> notices;
      const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = 2});
      EventLog log;
      const StopSignal stop;
      if (from) restore(*run, *from, {}, log);
      Trainer(*run, log, stop, {.run_directory = run_directory, .config = {}}).run();
      const std::vector<at::Tensor> mine = whole_weights(*run);
      if (rank == 0) weights = mine;
    });
    return weights;
  };
  const std::vector<at::Tensor> expected = trained(plain, 6, directory.path() / "whole", {});
  trained(on_disk, 3, directory.path() / "first", {});
  const std::filesystem::path half = step_directory_of(directory.path() / "first");
  for (const distributed::ZeroConfig& how : {plain, on_disk})
    CHECK(largest_difference(trained(how, 6, directory.path() / "second", half), expected) == 0);
}

TEST_CASE("a directory that can't hold offloaded state is an error that names it", "[train][dist]") {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "file";
  std::ofstream(file) << "x";
  const auto built = [&] {
    on_ranks(2, [&](std::size_t, comm::Group& group) {
      lay_out(*build_rank({.how = offloaded(2, file / "below")}, 2, group));
    });
  };
  CHECK_THROWS_WITH(built(), Catch::Contains((file / "below").string()));
}

}  // namespace trainctl::train
