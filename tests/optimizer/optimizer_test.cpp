#include "optimizer/optimizer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "small_net.h"
#include "support/map_state.h"

namespace trainctl::optimizer::optimizer_test {
namespace {

using testing::MapState;
using testing::SmallNet;

template <class... Rules>
std::vector<UpdateRuleConfig> with_their_defaults(const config::OneOf<Rules...>&) {
  std::vector<UpdateRuleConfig> rules;
  const auto add = [&]<class Rule>(std::type_identity<Rule>) {
    if constexpr (!config::ForPlugIns<Rule>) rules.push_back(Rule{});
  };
  (add(std::type_identity<Rules>()), ...);
  return rules;
}

/// Every rule, with all its state in use.
std::vector<OptimizerConfig> every_rule() {
  std::vector<UpdateRuleConfig> rules = with_their_defaults(UpdateRuleConfig());
  for (const UpdateRuleConfig& rule : std::initializer_list<UpdateRuleConfig>{
           SgdConfig{.momentum = 0},
           SgdConfig{.momentum = 0.9, .dampening = 0.5},
           SgdConfig{.momentum = 0.9, .dampening = 0.5, .fused = false},
           AdamConfig{.amsgrad = true},
           AdamWConfig{.amsgrad = true, .fused = false},
           RmspropConfig{.momentum = 0.9, .centered = true},
           SoapConfig{.precondition_frequency = 3, .precondition_1d = true},
       })
    rules.push_back(rule);
  std::vector<OptimizerConfig> configs;
  for (const UpdateRuleConfig& rule : rules) {
    OptimizerConfig config;
    config.rule = rule;
    config.lr = 0.01;
    config.weight_decay = 0.1;
    configs.push_back(config);
  }
  return configs;
}

struct Batches {
  at::Tensor images = at::randn({20, 8, 1, 8, 8}, at::make_generator<at::CPUGeneratorImpl>(1), at::TensorOptions());
  at::Tensor labels =
      at::randint(0, 5, {20, 8}, at::make_generator<at::CPUGeneratorImpl>(2), at::TensorOptions().dtype(at::kLong));
};

SmallNet random_net() {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(3);
  return SmallNet::of(
      [&](const auto&, const auto& shape) { return at::randn(shape, generator, at::TensorOptions()).mul_(0.2); },
      at::kFloat);
}

std::vector<at::Tensor> copies(const SmallNet& net) {
  std::vector<at::Tensor> all;
  for (const OptimizedParameter& parameter : net.parameters) all.push_back(parameter.tensor.detach().clone());
  return all;
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return x.equal(y); });
}

void train(const SmallNet& net, Optimizer& optimizer, const Batches& batches, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step < last; ++step) {
    net.backward(batches.images.select(0, step), batches.labels.select(0, step));
    optimizer.step(0.01, {});
  }
}

TEST_CASE("20 steps are 10, restored into a new optimizer, and 10 more, bit for bit, for every rule", "[optimizer]") {
  const Batches batches;
  for (const OptimizerConfig& config : every_rule()) {
    INFO(config.rule.kind());
    const SmallNet whole = random_net();
    const auto uninterrupted = build(config, whole.parameters);
    train(whole, *uninterrupted, batches, 0, 20);

    const SmallNet first = random_net();
    const auto before = build(config, first.parameters);
    train(first, *before, batches, 0, 10);
    MapState saved = MapState::of(*before);
    const SmallNet second =
        SmallNet::of([&](const std::string& name, const auto&) { return first[name].detach(); }, at::kFloat);
    const auto after = build(config, second.parameters);
    saved.restore_into(*after);
    train(second, *after, batches, 10, 20);

    CHECK(equal(copies(whole), copies(second)));
    CHECK(MapState::of(*uninterrupted).equals(MapState::of(*after)));
  }
}

TEST_CASE("an overflow leaves parameters and state untouched bit for bit, at the first step and later", "[optimizer]") {
  const Batches batches;
  const at::Tensor overflow = at::ones({}), fine = at::zeros({});
  for (const OptimizerConfig& config : every_rule()) {
    INFO(config.rule.kind());
    const SmallNet net = random_net();
    const auto optimizer = build(config, net.parameters);
    const SmallNet undisturbed = random_net();
    const auto other = build(config, undisturbed.parameters);
    for (std::int64_t step = 0; step < 5; ++step) {
      const auto weights = copies(net);
      const MapState state = MapState::of(*optimizer);
      net.backward(batches.images.select(0, 19 - step), batches.labels.select(0, step));
      net.parameters[0].tensor.mutable_grad().fill_(INFINITY);
      optimizer->step(0.01, overflow);
      CHECK(equal(weights, copies(net)));
      CHECK(state.equals(MapState::of(*optimizer)));

      net.backward(batches.images.select(0, step), batches.labels.select(0, step));
      optimizer->step(0.01, fine);
      undisturbed.backward(batches.images.select(0, step), batches.labels.select(0, step));
      other->step(0.01, {});
    }
    CHECK(equal(copies(net), copies(undisturbed)));
  }
}

TEST_CASE("a rule that says so, and no other, updates a shard as it updates the whole", "[optimizer]") {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(4);
  const at::Tensor weight = at::randn({6, 4}, generator, at::TensorOptions());
  const at::Tensor gradient = at::randn({6, 4}, generator, at::TensorOptions());
  const auto updated = [&](const OptimizerConfig& config, std::int64_t rows) {
    const at::Tensor own = weight.narrow(0, 0, rows).clone().set_requires_grad(true);
    const auto optimizer = build(config, {{.name = "weight", .tensor = own}});
    for (std::int64_t step = 0; step < 3; ++step) {
      own.mutable_grad() = gradient.narrow(0, 0, rows).mul(static_cast<double>(step + 1));
      optimizer->step(0.01, {});
    }
    return own.detach().narrow(0, 0, 3).clone();
  };
  for (const OptimizerConfig& config : every_rule()) {
    INFO(config.rule.kind());
    CHECK(updated(config, 3).allclose(updated(config, 6), 0, 1e-9) == config::traits_of(config.rule).is_elementwise);
  }
}

TEST_CASE("parameters without a gradient are left alone, and catch up with their own step count", "[optimizer]") {
  const Batches batches;
  for (const OptimizerConfig& config : every_rule()) {
    INFO(config.rule.kind());
    const SmallNet net = random_net();
    const auto optimizer = build(config, net.parameters);
    train(net, *optimizer, batches, 0, 2);
    const at::Tensor frozen = net["hidden.weight"].detach().clone();
    const at::Tensor moving = net["head.weight"].detach().clone();
    net.backward(batches.images[2], batches.labels[2]);
    net["hidden.weight"].mutable_grad().reset();
    optimizer->step(0.01, {});
    CHECK(net["hidden.weight"].equal(frozen));
    CHECK_FALSE(net["head.weight"].equal(moving));
    MapState state = MapState::of(*optimizer);
    for (const auto& [name, count] : {std::pair("step.head.weight", 3), std::pair("step.hidden.weight", 2)})
      if (state.tensors.contains(name)) CHECK(state.tensors[name].item<float>() == static_cast<float>(count));
    zero_grad(net.parameters);
    optimizer->step(0.01, {});  // nothing to do
  }
}

TEST_CASE("a gradient in another memory format gives the same update", "[optimizer]") {
  for (const OptimizerConfig& config : every_rule()) {
    INFO(config.rule.kind());
    const auto updated = [&](at::MemoryFormat of_weight, at::MemoryFormat of_gradient) {
      const at::Tensor weight =
          at::randn({4, 3, 5, 2}, at::make_generator<at::CPUGeneratorImpl>(4), at::TensorOptions())
              .contiguous(of_weight)
              .requires_grad_();
      const std::vector<OptimizedParameter> parameters{{"weight", weight}};
      const auto optimizer = build(config, parameters);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const at::Tensor gradient =
            at::randn({4, 3, 5, 2}, at::make_generator<at::CPUGeneratorImpl>(5 + step), at::TensorOptions());
        weight.mutable_grad() = gradient.contiguous(of_gradient);
        optimizer->step(0.01, {});
      }
      return weight.detach().contiguous();
    };
    const at::Tensor expected = updated(at::MemoryFormat::Contiguous, at::MemoryFormat::Contiguous);
    for (const auto of_weight : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
      for (const auto of_gradient : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
        CHECK(updated(of_weight, of_gradient).allclose(expected, 1e-5, 1e-6));
  }
}

TEST_CASE("weights to evaluate change no step, and a run saved with them goes on bit for bit", "[optimizer]") {
  const Batches batches;
  OptimizerConfig config;
  config.rule = ScheduleFreeConfig{};
  config.weight_decay = 0.1;
  const SmallNet whole = random_net();
  const auto uninterrupted = build(config, whole.parameters);
  train(whole, *uninterrupted, batches, 0, 20);

  const SmallNet first = random_net();
  const auto before = build(config, first.parameters);
  train(first, *before, batches, 0, 5);
  const std::vector<at::Tensor> trained = copies(first);
  REQUIRE(before->eval());
  CHECK_FALSE(before->eval());
  CHECK_FALSE(equal(trained, copies(first)));
  before->train();
  CHECK(equal(trained, copies(first)));
  train(first, *before, batches, 5, 10);

  before->eval();
  MapState saved = MapState::of(*before);
  const SmallNet second =
      SmallNet::of([&](const std::string& name, const auto&) { return first[name].detach(); }, at::kFloat);
  const auto after = build(config, second.parameters);
  after->eval();
  saved.restore_into(*after);
  after->train();
  train(second, *after, batches, 10, 20);
  CHECK(equal(copies(whole), copies(second)));
  uninterrupted->eval();
  after->eval();
  CHECK(equal(copies(whole), copies(second)));
  CHECK(MapState::of(*uninterrupted).equals(MapState::of(*after)));
}

TEST_CASE("another beta1 at a resume leaves the average, and gradients are taken at its place",
          "[optimizer][regression]") {
  const Batches batches;
  OptimizerConfig config;
  config.rule = ScheduleFreeConfig{.beta1 = 0.9};
  const SmallNet first = random_net();
  const auto before = build(config, first.parameters);
  train(first, *before, batches, 0, 10);
  before->eval();
  MapState saved = MapState::of(*before);

  config.rule = ScheduleFreeConfig{.beta1 = 0.5};
  const SmallNet second =
      SmallNet::of([&](const std::string& name, const auto&) { return first[name].detach(); }, at::kFloat);
  const auto after = build(config, second.parameters);
  after->eval();
  saved.restore_into(*after);
  after->train();
  for (const OptimizedParameter& one : second.parameters) {
    INFO(one.name);
    const at::Tensor middle = first[one.name].detach().add(saved.tensors.at("z." + one.name)).div(2);
    CHECK(one.tensor.allclose(middle, 1e-5, 1e-6));
  }
  after->eval();
  for (const OptimizedParameter& one : second.parameters) CHECK(one.tensor.allclose(first[one.name], 1e-5, 1e-6));
}

TEST_CASE("muon leaves embeddings, the output layer, vectors and named layers to AdamW", "[optimizer]") {
  const Batches batches;
  OptimizerConfig config;
  config.rule = MuonConfig{.adamw = {.params = {"conv*"}}};
  const SmallNet net = random_net();
  const auto optimizer = build(config, net.parameters);
  const MapState state = MapState::of(*optimizer);
  for (const OptimizedParameter& parameter : net.parameters) {
    INFO(parameter.name);
    const bool is_whole = parameter.name == "hidden.weight";
    CHECK(state.tensors.contains("momentum_buffer." + parameter.name) == is_whole);
    CHECK(state.tensors.contains("exp_avg_sq." + parameter.name) != is_whole);
    CHECK(updates_whole(config, parameter.name, parameter.is_hidden_matrix) == is_whole);
  }
}

TEST_CASE("patterns that leave muon no matrix are refused", "[optimizer][regression]") {
  const std::vector<TrainedParameter> parameters{{"hidden.weight", 2}, {"hidden.bias", 1}, {"head.weight", 2}};
  OptimizerConfig config;
  config.rule = MuonConfig{.adamw = {.params = {"hidden", "head*"}}};
  CHECK_THROWS_WITH(check_parameter_groups(config, parameters), Catch::Contains("optimizer.adamw.params"));
  config.rule = MuonConfig{.adamw = {.params = {"head*"}}};
  CHECK_NOTHROW(check_parameter_groups(config, parameters));
}

TEST_CASE("only matrices are decayed unless biases and norms are asked for", "[optimizer]") {
  for (const bool all : {false, true}) {
    OptimizerConfig config;
    config.rule = SgdConfig{.momentum = 0};
    config.weight_decay = 0.5;
    config.decay_bias_and_norm = all;
    const std::vector<OptimizedParameter> parameters{{"weight", at::ones({2, 2}).requires_grad_()},
                                                     {"bias", at::ones({2}).requires_grad_()}};
    const auto optimizer = build(config, parameters);
    for (const OptimizedParameter& parameter : parameters)
      parameter.tensor.mutable_grad() = at::zeros(parameter.tensor.sizes());
    optimizer->step(0.1, {});
    CHECK(parameters[0].tensor.equal(at::full({2, 2}, 0.95)));
    CHECK(parameters[1].tensor.equal(at::full({2}, all ? 0.95 : 1.0)));
  }
}

TEST_CASE("16-bit parameters are refused with what to do instead", "[optimizer]") {
  const OptimizerConfig config;
  try {
    build(config, {{"head.weight", at::ones({2, 2}, at::kBFloat16)}});
    FAIL("accepted");
  } catch (const core::Error& error) {
    CHECK_THAT(error.text(), Catch::Contains("head.weight") && Catch::Contains("BFloat16") && Catch::Contains("fp32"));
  }
  CHECK_THROWS_AS(build(config, {{"ids", at::ones({2}, at::kLong)}}), core::Error);
  CHECK_THROWS_AS(build(config, {{"slice", at::ones({4, 4}).select(1, 0)}}), core::Error);
}

TEST_CASE("an optimizer of nothing does nothing", "[optimizer]") {
  for (const OptimizerConfig& config : every_rule()) {
    const auto optimizer = build(config, {});
    optimizer->step(0.1, {});
    CHECK(MapState::of(*optimizer).tensors.empty());
  }
  CHECK(clip_grad_norm({}, 1.0).item<float>() == 0);
}

TEST_CASE("a rule doesn't go on from another rule's state of another meaning", "[optimizer][regression]") {
  const auto go_on = [](const UpdateRuleConfig& before, const UpdateRuleConfig& after) {
    const SmallNet net = random_net();
    OptimizerConfig config;
    config.rule = before;
    MapState saved = MapState::of(*build(config, net.parameters));
    config.rule = after;
    saved.restore_into(*build(config, net.parameters));
  };
  CHECK_NOTHROW(go_on(AdamWConfig{}, LionConfig{}));
  CHECK_THROWS(go_on(SoapConfig{}, LionConfig{}));
  CHECK_THROWS(go_on(SoapConfig{}, LambConfig{}));
  CHECK_THROWS(go_on(RmspropConfig{.momentum = 0.9}, SgdConfig{}));
}

TEST_CASE("muP's scale of a rate leaves the product of rate and decay as it is", "[optimizer]") {
  for (const UpdateRuleConfig& rule : std::initializer_list<UpdateRuleConfig>{AdamWConfig{}, LionConfig{}}) {
    OptimizerConfig config;
    config.rule = rule;
    config.lr = 0.01;
    config.weight_decay = 0.1;
    const auto updated = [](const OptimizerConfig& one, double lr_scale) {
      const at::Tensor weight = at::full({2, 2}, 3.0, at::kDouble).requires_grad_();
      std::vector<OptimizedParameter> parameters{{.name = "weight", .tensor = weight, .lr_scale = lr_scale}};
      const auto optimizer = build(one, parameters);
      for (int step = 0; step < 3; ++step) {
        weight.mutable_grad() = at::full({2, 2}, 0.5, at::kDouble);
        optimizer->step(one.lr, {});
      }
      return weight.detach().clone();
    };
    OptimizerConfig by_hand = config;
    by_hand.lr = config.lr / 4;
    by_hand.weight_decay = config.weight_decay * 4;
    CHECK(updated(config, 0.25).sub(updated(by_hand, 1)).abs().max().item<double>() < 1e-15);
  }
}

}  // namespace
}  // namespace trainctl::optimizer::optimizer_test
