// Layers on two devices of one process, against all on one.
#include "model/placement.h"

#include "amp/amp.h"
#include "distributed/distributed.h"
#include "runtime/sample_randomness.h"
#include "stand_in_device.h"
#include "task/task.h"
#include "train/ranks.h"

namespace trainctl::train {

using namespace testing;

namespace {

const c10::Device kCpu{c10::kCPU};

struct PlacedRun {
  std::vector<at::Tensor> weights;  // on the CPU
  std::vector<at::Tensor> averages;
  std::vector<double> losses;
  std::vector<double> norms;
};

experiment::Experiment placed_experiment(const model::NetworkConfig& network) {
  experiment::Experiment experiment = testing::experiment_of({.language_model = true, .dropout = 0.1}, 1);
  experiment.model.network = network;
  return experiment;
}

/// Steps with dropout, loss scaling, clipping, an optimizer with and without weight decay, and averages. The third step
/// overflows in a gradient of `overflows_in`.
PlacedRun train(const model::NetworkConfig& network, const std::vector<model::LayerPlace>& places,
                const std::string& overflows_in, const optimizer::UpdateRuleConfig& rule) {
  const experiment::Experiment experiment = placed_experiment(network);
  std::unique_ptr<Run> run = build_run(experiment);
  const model::InputSpec input{{16}, 0, 40};
  const std::unique_ptr<model::Model> model = model::build(experiment.model, input);
  model::place_layers(*model, places, kCpu);
  model::materialize(*model, kCpu, 7, false);
  for (const model::LayerPlace& place : places)
    REQUIRE(std::ranges::any_of(model::named_parameters(*model), [&](const model::NamedTensor& named) {
      return named.tensor.device() == place.device;
    }));
  std::vector<optimizer::OptimizedParameter> parameters;
  for (const model::NamedTensor& named : model::named_parameters(*model))
    parameters.push_back({.name = named.name, .tensor = named.tensor, .num_dims = named.tensor.dim()});
  optimizer::OptimizerConfig config{.rule = rule, .weight_decay = 0.1, .clip_norm = 0.5};
  const std::unique_ptr<optimizer::Optimizer> optimizer = optimizer::build(config, parameters);
  optimizer::Ema ema({.decay = 0.9}, parameters);
  amp::LossScaler scaler({.mode = amp::Precision::fp16, .loss_scaling = amp::DynamicScalingConfig{.init_scale = 64}},
                         kCpu);
  PlacedRun trained;
  for (std::int64_t step = 1; step <= 5; ++step) {
    const dataset::Batch batch = run->data.train->next().value();
    const runtime::SampleRandomness randomness({.seed = 1, .epoch = batch.epoch, .first_sample = batch.first_sample});
    const task::LossSum loss = run->task->loss(*model, run->task->prepare(batch, static_cast<std::uint64_t>(step)));
    scaler.scale(loss.sum.div(static_cast<double>(loss.count))).backward();
    if (step == 3)
      for (const optimizer::OptimizedParameter& parameter : parameters)
        if (parameter.name.ends_with(overflows_in)) parameter.tensor.mutable_grad().fill_(INFINITY);
    const at::Tensor found_inf = scaler.unscale(optimizer::gradients_of(parameters));
    CHECK(found_inf.item<float>() == (step == 3 ? 1 : 0));
    const at::Tensor norm = optimizer::clip_grad_norm(parameters, config.clip_norm, {});
    optimizer->step(1e-2, found_inf.reshape({1}));
    scaler.update(found_inf);
    ema.update(step);
    optimizer::zero_grad(parameters);
    trained.losses.push_back(loss.sum.item<double>());
    trained.norms.push_back(norm.item<double>());
  }
  for (const optimizer::OptimizedParameter& parameter : parameters)
    trained.weights.push_back(parameter.tensor.detach().cpu().clone());
  ema.swap();
  for (const optimizer::OptimizedParameter& parameter : parameters)
    trained.averages.push_back(parameter.tensor.detach().to(kCpu));
  return trained;
}

void check_placed(const model::NetworkConfig& network, const std::vector<model::LayerPlace>& places,
                  const std::string& overflows_in,
                  const optimizer::UpdateRuleConfig& rule = optimizer::AdamWConfig{.eps = 1e-3}) {
  const PlacedRun together = train(network, {}, overflows_in, rule);
  const PlacedRun placed = train(network, places, overflows_in, rule);
  CHECK(largest_difference(placed.weights, together.weights) < 1e-6);
  CHECK(largest_difference(placed.averages, together.averages) < 1e-6);
  for (std::size_t i = 0; i < together.losses.size(); ++i) {
    CHECK(placed.losses[i] == Approx(together.losses[i]).epsilon(1e-6));
    if (i != 2) CHECK(placed.norms[i] == Approx(together.norms[i]).epsilon(1e-6));
  }
}

model::Gpt2Config gpt2_of(std::int64_t num_layers) {
  return {.hidden_size = 16, .num_layers = num_layers, .num_heads = 2, .dropout = 0.1, .attention_dropout = 0.0};
}

}  // namespace

TEST_CASE("blocks on another device make the same steps", "[train][placement]") {
  check_placed(gpt2_of(4), {{"transformer.h.[12]", kStandIn}}, "h.2.mlp.c_fc.weight");
  check_placed(gpt2_of(2), {{"transformer.h.0", kStandIn}}, "h.1.mlp.c_fc.weight",
               optimizer::SgdConfig{.momentum = 0.9});
  check_placed(gpt2_of(2), {{"transformer.h.1", kStandIn}}, "h.1.mlp.c_fc.weight", optimizer::LambConfig{.eps = 1e-3});
}

TEST_CASE("attention on one device and feed-forward on another make the same steps", "[train][placement]") {
  check_placed(gpt2_of(2), {{"mlp", kStandIn}}, "h.1.attn.c_attn.weight");
  check_placed(model::LlamaConfig{.hidden_size = 32,
                                  .num_layers = 2,
                                  .num_heads = 4,
                                  .num_key_value_heads = std::int64_t{2},
                                  .intermediate_size = std::int64_t{48}},
               {{"self_attn", kStandIn}}, "layers.1.mlp.up_proj.weight");
}

TEST_CASE("of several patterns that fit a layer the last counts", "[train][placement]") {
  const experiment::Experiment experiment = placed_experiment(gpt2_of(3));
  const std::unique_ptr<model::Model> model = model::build(experiment.model, {{16}, 0, 40});
  model::place_layers(*model, {{"transformer.h.*", kStandIn}, {"transformer.h.1", kCpu}}, kCpu);
  model->visit_parameters([](const std::string& name, const model::TensorDecl& decl) {
    CAPTURE(name);
    const bool is_placed = name.starts_with("transformer.h.") && !name.starts_with("transformer.h.1.");
    CHECK(decl.device == (is_placed ? kStandIn : kCpu));
  });
}

TEST_CASE("patterns that fit nothing, or the blocks at the ends, are refused", "[train][placement]") {
  const experiment::Experiment experiment = placed_experiment(gpt2_of(2));
  const auto place = [&](const std::string& layers) {
    model::place_layers(*model::build(experiment.model, {{16}, 0, 40}), {{layers, kStandIn}}, kCpu);
  };
  CHECK_THROWS_WITH(place("decoder.*"), Catch::Contains("no layer's name fits 'decoder.*'"));
  CHECK_THROWS_WITH(place("wte"), Catch::Contains("model.placement moves"));
}

}  // namespace trainctl::train
