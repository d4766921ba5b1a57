// The kinds' own code on a group of one, which a run would pass by: over Gloo here, over NCCL where there is a GPU.
#include "comm/world.h"
#include "distributed/kinds.h"
#include "ranks.h"
#include "support/gpu.h"

namespace trainctl::train {

using namespace testing;

namespace {

experiment::Experiment experiment_on(runtime::DeviceKind device) {
  experiment::Experiment experiment =
      experiment_of({.global_batch = 12, .micro_batches = 2, .language_model = true}, 1);
  experiment.device.kind = device;
  return experiment;
}

std::vector<at::Tensor> weights_after_ten_steps(Run& run) {
  Step step(run);
  for (int i = 0; i < 10; ++i) step(GradNorm::measure);
  std::vector<at::Tensor> weights;
  for (at::Tensor& weight : whole_weights(run)) weights.push_back(weight.cpu());
  return weights;
}

void lay_over(Run& run, const distributed::DistributedKindConfig& how, comm::Group& group) {
  auto mesh = std::make_unique<comm::DeviceMesh>(group, comm::MeshShape{});
  how.visit([&](const auto& config) {
    using Config = std::remove_cvref_t<decltype(config)>;
    if constexpr (std::is_same_v<Config, distributed::ZeroConfig>) {
      if (config.stage == 3) model::materialize_without_parameters(*run.model, run.device, /*channels_last=*/false);
      run.parallel = build(config, *mesh, *run.model, model::first_values(*run.model, run.seed()));
    } else if constexpr (std::is_same_v<Config, distributed::DdpConfig>) {
      run.parallel = build(config, *mesh, *run.model);
    }
  });
  run.mesh = std::move(mesh);
  run.parameters = run.parallel->optimized();
  run.optimizer = run.parallel->make_optimizer(run.experiment.optimizer);
}

/// `bound`: of the difference of any weight or average from a run without a group.
void check_kinds(runtime::DeviceKind device, double bound) {
  comm::WorldOptions options;
  options.launch = {.launcher = "test"};
  options.device = device == runtime::DeviceKind::cpu ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, 0);
  const std::unique_ptr<comm::World> world = comm::join(options);
  const std::vector<at::Tensor> alone = weights_after_ten_steps(*build_run(experiment_on(device)));
  for (const distributed::DistributedKindConfig& how :
       {distributed::DistributedKindConfig(distributed::DdpConfig{}),
        distributed::DistributedKindConfig(distributed::DdpConfig{.static_graph = true}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 1}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 2}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 3})}) {
    CAPTURE(how.kind());
    const std::unique_ptr<Run> run = build_run(experiment_on(device));
    lay_over(*run, how, world->group());
    CHECK(largest_difference(weights_after_ten_steps(*run), alone) <= bound);
  }
  CHECK_THAT(world->collectives(), Catch::Contains("all_reduce") && Catch::Contains("reduce_scatter"));
}

}  // namespace

TEST_CASE("one rank over Gloo takes the steps of a process without a group", "[train][dist]") {
  check_kinds(runtime::DeviceKind::cpu, 1e-6);
}

TEST_CASE("one rank over NCCL takes the steps of a process without a group", "[train][dist][gpu]") {
  testing::need_gpu();
  check_kinds(runtime::DeviceKind::cuda, 1e-4);  // sums of embeddings' gradients have no fixed order there
}

}  // namespace trainctl::train
