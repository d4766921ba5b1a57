// Hybrid sharding: parts are dealt within groups of ranks, and their gradients summed between groups.
#include "ranks.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::train {

using namespace testing;

namespace {

distributed::ZeroConfig hybrid(std::int64_t stage, std::int64_t group_size) {
  return {.stage = stage, .shard = group_size};
}

}  // namespace

TEST_CASE("hybrid sharding over two groups of two equals one process with the whole batch", "[train][dist]") {
  for (const std::int64_t stage : {1, 2, 3})
    for (const std::int64_t micro_batches : {1, 2})
      for (const std::optional<double> clip_norm : {std::optional<double>(1.0), std::optional<double>()}) {
        CAPTURE(stage, micro_batches, clip_norm.has_value());
        check_equal_to_one_process({.micro_batches = micro_batches, .clip_norm = clip_norm, .how = hybrid(stage, 2)},
                                   4);
      }
}

TEST_CASE("hybrid sharding bears tied weights, ragged batches, three groups, and one group of all", "[train][dist]") {
  for (const std::int64_t stage : {2, 3}) {
    CAPTURE(stage);
    check_equal_to_one_process({.language_model = true, .dropout = 0.2, .how = hybrid(stage, 2)}, 4);
    check_equal_to_one_process({.num_samples = 97, .how = hybrid(stage, 2)}, 4);
    check_equal_to_one_process({.how = hybrid(stage, 2)}, 6);
    check_equal_to_one_process({.how = hybrid(stage, 3)}, 6);
    check_equal_to_one_process({.how = hybrid(stage, 2)}, 2);
  }
}

TEST_CASE("hybrid sharding clips by the norm that one process has", "[train][dist]") {
  const auto first_norm = [](Run& run) { return Step(run)(GradNorm::measure).grad_norm.item<double>(); };
  const double alone = first_norm(*build_run(experiment_of({}, 1)));
  std::vector<double> norms(4);
  on_ranks(4, [&](std::size_t rank, comm::Group& group) {
    const std::unique_ptr<Run> run = build_rank({.how = hybrid(2, 2)}, 4, group);
    lay_out(*run);
    norms[rank] = first_norm(*run);
  });
  for (const double norm : norms) CHECK(norm == Approx(alone).epsilon(1e-5));
}

TEST_CASE("groups that don't divide the ranks are refused, with the numbers", "[train][dist]") {
  const auto built = [&] {
    on_ranks(3, [&](std::size_t, comm::Group& group) { lay_out(*build_rank({.how = hybrid(3, 2)}, 3, group)); });
  };
  CHECK_THROWS_WITH(built(), Catch::Contains("distributed.shard is 2") && Catch::Contains("3 ranks"));
}

TEST_CASE("state of hybrid ranks restores exactly in any layout, and any layout's in theirs", "[train][dist]") {
  const auto moved = [](const distributed::DistributedKindConfig& from, std::int64_t from_size,
                        const distributed::DistributedKindConfig& to, std::int64_t to_size) {
    const TemporaryDirectory directory;
    std::vector<at::Tensor> before;
    std::vector<at::Tensor> after;
    std::filesystem::path saved;
    for (const bool restores : {false, true}) {
      const std::int64_t size = restores ? to_size : from_size;
      on_ranks(size, [&](std::size_t rank, comm::Group& group) {
        Setting setting{.language_model = true, .how = restores ? to : from};
        std::vector<tracking::Notice> notices;
        experiment::Experiment experiment = experiment_of(setting, size);
        experiment.distributed.how = setting.how;
        experiment.train.steps = restores ? 4 : 3;
        const std::unique_ptr<Run> run = build(
            experiment, notices, {.group = &group, .local_world_size = size, .global_batch = setting.global_batch});
        EventLog log;
        if (!restores) {
          const StopSignal stop;
          Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
        } else {
          restore(*run, saved, {}, log);
        }
        const std::vector<at::Tensor> weights = whole_weights(*run);
        if (rank == 0) (restores ? after : before) = weights;
      });
      saved = step_directory_of(directory.path());
    }
    REQUIRE(before.size() == after.size());
    CHECK(largest_difference(before, after) == 0);
  };
  for (const std::int64_t stage : {1, 3}) {
    moved(hybrid(stage, 2), 4, distributed::NotDistributedConfig{}, 1);
    moved(hybrid(stage, 2), 4, distributed::ZeroConfig{.stage = 2}, 3);
    moved(distributed::ZeroConfig{.stage = 3}, 3, hybrid(stage, 2), 4);
    moved(distributed::DdpConfig{}, 2, hybrid(stage, 2), 6);
  }
}

}  // namespace trainctl::train
