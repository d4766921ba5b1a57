// What must compose with ranks: recomputation, dropout, loss scaling, replicas that are threads of a program.
#include "ranks.h"

#include "core/error.h"
#include "train/loop/trainer.h"
#include "train/run/replicas.h"

namespace trainctl::train {

using namespace testing;

TEST_CASE("recomputed activations change no bit, whatever the layout", "[train][dist]") {
  for (const distributed::DistributedKindConfig& how : kinds()) {
    CAPTURE(how.kind());
    const Setting plain{.language_model = true, .dropout = 0.2, .how = how};
    Setting recomputed = plain;
    recomputed.recomputation.blocks = activation_checkpointing::FullCheckpointingConfig{};
    CHECK(largest_difference(on_ranks(plain, 2, at::kFloat)[0].weights,
                             on_ranks(recomputed, 2, at::kFloat)[0].weights) == 0);
  }
}

TEST_CASE("dropout is the same on any number of ranks", "[train][dist]") {
  check_equal_to_one_process({.language_model = true, .dropout = 0.2}, 2);
  check_equal_to_one_process({.micro_batches = 2, .dropout = 0.3, .how = distributed::ZeroConfig{.stage = 3}}, 3);
}

TEST_CASE("an overflow on one rank skips the step on all", "[train][dist]") {
  for (const distributed::DistributedKindConfig& how : kinds()) {
    CAPTURE(how.kind());
    std::vector<double> scales(2);
    on_ranks(2, [&](std::size_t rank, comm::Group& group) {
      std::vector<tracking::Notice> notices;
      Setting setting;
      setting.how = how;
      experiment::Experiment experiment = experiment_of(setting, 2);
      experiment.amp.mode = amp::Precision::fp16;
      experiment.amp.loss_scaling = amp::DynamicScalingConfig{.init_scale = 1024};
      const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = 2});
      const std::vector<at::Tensor> before = whole_weights(*run);
      if (rank == 1)
        run->data.train = std::make_unique<ChangedLoader>(
            std::move(run->data.train), [](dataset::Batch& batch) { batch.inputs.flatten()[0].fill_(1e30); });
      Step step(*run);
      const StepResult result = step(GradNorm::measure);
      if (result.skipped.item<float>() != 1) throw std::runtime_error("the step was made");
      if (largest_difference(before, whole_weights(*run)) != 0) throw std::runtime_error("the weights have changed");
      scales[rank] = run->scaler.current_scale();
    });
    CHECK(scales == std::vector<double>{512, 512});
  }
}

TEST_CASE("replicas as threads of a program train as one process does", "[train][dist]") {
  for (const std::int64_t replicas : {2, 3}) {
    const Setting setting{.how = distributed::LocalReplicasConfig{.devices = replicas}};
    std::vector<at::Tensor> weights;
    EventLog log;
    const int signal = train_replicas(replicas, std::chrono::seconds(60), [&](const RankContext& place) {
      std::vector<tracking::Notice> notices;
      const std::unique_ptr<Run> run = build(experiment_of(setting, replicas), notices, place);
      Step step(*run);
      for (int i = 0; i < 10; ++i) step(GradNorm::measure);
      const std::vector<at::Tensor> mine = whole_weights(*run);
      if (run->is_first()) weights = mine;
      return 0;
    });
    CHECK(signal == 0);
    CHECK(largest_difference(weights, alone_with(setting, at::kFloat).weights) < 2e-5);
  }
}

TEST_CASE("a replica's failure ends the others at once", "[train][dist]") {
  const auto fails = [&](const RankContext& place) {
    if (place.group->rank() == 1) throw core::Error("the second one has no data");
    place.group->barrier();
    return 0;
  };
  CHECK_THROWS_WITH(train_replicas(3, std::chrono::seconds(60), fails), Catch::Contains("the second one has no data"));
}

}  // namespace trainctl::train
