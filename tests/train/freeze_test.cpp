// Runs that leave layers frozen, and give others rates of their own, on one rank and on several.
#include <catch2/catch.hpp>

#include "ranks.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// A language model whose embeddings, and so the head's weights, and first block are frozen. The others have rates and
/// decay of their own.
Setting frozen_setting() {
  return {.language_model = true,
          .num_heads = 4,
          .freeze = {"wte", "h.0"},
          .param_groups = {{.params = "wpe", .lr = {}, .lr_scale = 0.5, .weight_decay = 0},
                           {.params = "mlp.*", .lr = 3e-4, .lr_scale = {}, .weight_decay = 0.2}},
          .layer_decay = 0.7};
}

bool is_frozen(const std::string& name) {
  return name.find("wte.") != std::string::npos || name.find(".h.0.") != std::string::npos;
}

}  // namespace

TEST_CASE("frozen parameters keep their values, and have neither gradients nor optimizer state", "[train]") {
  const auto run = build_run(experiment_of(frozen_setting(), 1));
  std::map<std::string, at::Tensor> before;
  for (const model::NamedTensor& named : model::named_parameters(*run->model))
    before[named.name] = named.tensor.detach().clone();
  Step step(*run);
  for (int i = 0; i < 3; ++i) step(GradNorm::measure);
  for (const model::NamedTensor& named : model::named_parameters(*run->model)) {
    INFO(named.name);
    CHECK(named.tensor.equal(before.at(named.name)) == is_frozen(named.name));
    if (is_frozen(named.name)) CHECK_FALSE(named.tensor.grad().defined());
  }
  std::size_t num_slots = 0;
  for (const auto& [name, tensor] : MapState::of(*run).tensors)
    if (name.starts_with("optimizer.")) {
      INFO(name);
      ++num_slots;
      CHECK_FALSE(is_frozen(name));
    }
  CHECK(num_slots > 0);
}

TEST_CASE("frozen layers, layer decay and parameter groups give one process's steps under every layout",
          "[train][dist]") {
  Setting setting = frozen_setting();
  for (const distributed::DistributedKindConfig& how : kinds()) {
    setting.how = how;
    check_equal_to_one_process(setting, 2);
  }
  setting.recomputation.blocks = activation_checkpointing::FullCheckpointingConfig{};
  check_equal_to_one_process(setting, 2);
  setting.recomputation = {};
  setting.how = distributed::DdpConfig{};
  setting.tensor = 2;
  check_equal_to_one_process(setting, 2);
  setting.tensor = 1;
  setting.micro_batches = 2;
  for (const distributed::PipelineScheduleConfig& schedule :
       {distributed::PipelineScheduleConfig(distributed::GpipeConfig{}),
        distributed::PipelineScheduleConfig(distributed::OneFOneBConfig{}),
        distributed::PipelineScheduleConfig(distributed::ZeroBubbleVConfig{})}) {
    setting.pipeline = 2;
    setting.schedule = schedule;
    check_equal_to_one_process(setting, 2);
  }
}

TEST_CASE("a stage of a pipeline may be frozen as a whole", "[train][dist]") {
  Setting setting{.micro_batches = 2, .pipeline = 2, .freeze = {"*", "!head"}};
  check_equal_to_one_process(setting, 2);
  setting.language_model = true;
  setting.num_heads = 4;
  setting.freeze = {"wte", "wpe", "h.[01]"};
  check_equal_to_one_process(setting, 2);
}

TEST_CASE("an entry of param_groups without effect is refused", "[train]") {
  experiment::Experiment experiment = experiment_of(frozen_setting(), 1);
  experiment.optimizer.param_groups = {{.params = "h.0", .lr = {}, .lr_scale = 0.5, .weight_decay = {}}};
  CHECK_THROWS_WITH(build_run(experiment), Catch::Contains("no trained parameter or layer is called `h.0`"));
  experiment.optimizer.param_groups = {{.params = "*.bias", .lr = {}, .lr_scale = {}, .weight_decay = 0.1}};
  CHECK_THROWS_WITH(build_run(experiment), Catch::Contains("covers biases and norms alone, which have no decay"));
  experiment.optimizer.decay_bias_and_norm = true;
  CHECK_NOTHROW(build_run(experiment));
  experiment.optimizer.param_groups = {{.params = "h.1.mlp", .lr = {}, .lr_scale = 0.5, .weight_decay = {}},
                                       {.params = "h.1", .lr = {}, .lr_scale = 0.1, .weight_decay = {}}};
  CHECK_THROWS_WITH(build_run(experiment), Catch::Contains("later entries cover all parameters that `h.1.mlp` does"));
}

}  // namespace trainctl::train
