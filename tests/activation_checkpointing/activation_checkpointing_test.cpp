// Recomputed networks against themselves: the same gradients to the bit, with less memory.
#include "activation_checkpointing/activation_checkpointing.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch.hpp>
#include <map>
#include <thread>

#include "activation_checkpointing/forward_state.h"
#include "activation_checkpointing/networks.h"
#include "activation_checkpointing/region.h"
#include "activation_checkpointing/saved_tensors.h"
#include "core/error.h"
#include "kernels/float8_linear.h"
#include "runtime/memory.h"
#include "runtime/sample_randomness.h"

namespace trainctl::activation_checkpointing {
namespace {

using testing::full_checkpointing;
using testing::Net;
using testing::net;

/// What a step leaves behind.
struct Outcome {
  at::Tensor loss;
  std::vector<model::NamedTensor> gradients;
  std::vector<model::NamedTensor> buffers;
};

enum class Randomness { of_samples, of_generator };

Outcome outcome_of(model::Model& model, const model::ModelInput& input,
                   Randomness randomness = Randomness::of_samples) {
  at::manual_seed(11);
  Outcome outcome;
  {
    std::optional<runtime::SampleRandomness> scope;
    if (randomness == Randomness::of_samples)
      scope.emplace(runtime::SampleRange{.seed = 2, .epoch = 1, .first_sample = 30});
    outcome.loss = testing::loss_of(model, input);
  }
  outcome.loss.backward();
  for (const model::NamedTensor& named : model::named_parameters(model))
    if (named.tensor.grad().defined()) outcome.gradients.push_back({named.name, named.tensor.grad()});
  for (const model::NamedTensor& named : model::named_buffers(model))
    outcome.buffers.push_back({named.name, named.tensor});
  return outcome;
}

void check_equal(const Outcome& actual, const Outcome& expected) {
  CHECK(actual.loss.equal(expected.loss));
  REQUIRE(actual.gradients.size() == expected.gradients.size());
  for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
    INFO(actual.gradients[i].name);
    CHECK(actual.gradients[i].tensor.equal(expected.gradients[i].tensor));
  }
  for (std::size_t i = 0; i < actual.buffers.size(); ++i) {
    INFO(actual.buffers[i].name);
    CHECK(actual.buffers[i].tensor.equal(expected.buffers[i].tensor));
  }
}

std::vector<ActivationCheckpointingConfig> ways() {
  return {{.blocks = FullCheckpointingConfig{}},
          {.blocks = EveryNthBlockConfig{.n = 2}},
          {.blocks = SelectiveOpConfig{}},
          {.blocks = SqrtCheckpointingConfig{}},
          {.blocks = BlockPatternConfig{.modules = {"*1*", "e*"}}},
          {.blocks = FullCheckpointingConfig{}, .offload = ActivationOffload::cpu},
          {.blocks = NoCheckpointingConfig{}, .offload = ActivationOffload::cpu}};
}

std::string text_of(const ActivationCheckpointingConfig& config) {
  return std::string(config.blocks.kind()) + (config.offload == ActivationOffload::cpu ? " offloaded" : "");
}

void check_network(const Net& n, Randomness randomness = Randomness::of_samples) {
  const std::unique_ptr<model::Model> plain = testing::ready(n);
  const Outcome expected = outcome_of(*plain, n.input, randomness);
  REQUIRE_FALSE(expected.gradients.empty());
  for (const ActivationCheckpointingConfig& config : ways()) {
    INFO(n.name << ", " << text_of(config));
    const std::unique_ptr<model::Model> model = testing::ready(n);
    if (config.blocks.get_if<BlockPatternConfig>() != nullptr && n.name != "gpt2") continue;
    checkpoint_activations(*model, config, at::kCPU);
    check_equal(outcome_of(*model, n.input, randomness), expected);
  }
}

TEST_CASE("another thread recomputes in the precision of the forward pass", "[activation_checkpointing][regression]") {
  // On a GPU autograd has a thread for each device.
  std::optional<ForwardState> state;
  {
    const kernels::Float8Products eight_bits(true);
    state.emplace(at::kCPU);
  }
  bool inside = false, after = true;
  std::thread([&] {
    {
      const RestoredForwardState restored(*state);
      inside = kernels::Float8Products::are_wanted();
    }
    after = kernels::Float8Products::are_wanted();
  }).join();
  CHECK(inside);
  CHECK_FALSE(after);
}

TEST_CASE("recomputing changes no gradient and no statistic of any network by a bit", "[activation_checkpointing]") {
  for (const Net& n : testing::networks()) check_network(n);
}

TEST_CASE("recomputation draws again what the default generator gave", "[activation_checkpointing]") {
  check_network(net("gpt2"), Randomness::of_generator);
  const std::unique_ptr<model::Model> model = testing::ready(net("gpt2"));
  checkpoint_activations(*model, full_checkpointing(), at::kCPU);
  at::manual_seed(11);
  const at::Tensor loss = testing::loss_of(*model, net("gpt2").input);
  const at::Tensor next = at::rand({4});
  at::manual_seed(11);
  const at::Tensor again = testing::loss_of(*model, net("gpt2").input);
  again.backward();
  CHECK(at::rand({4}).equal(next));
}

TEST_CASE("recomputation computes in the type that autocast gave", "[activation_checkpointing]") {
  const auto with_autocast = [](model::Model& model, const model::ModelInput& input) {
    const runtime::SampleRandomness randomness({.seed = 2});
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
    const at::Tensor loss = testing::loss_of(model, input);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    loss.backward();  // outside of it
    std::vector<at::Tensor> gradients;
    for (const model::NamedTensor& named : model::named_parameters(model)) gradients.push_back(named.tensor.grad());
    return gradients;
  };
  for (const char* name : {"gpt2", "cnn"})
    for (const bool selective : {false, true}) {
      const Net n = net(name);
      const std::unique_ptr<model::Model> plain = testing::ready(n);
      const std::unique_ptr<model::Model> model = testing::ready(n);
      checkpoint_activations(
          *model, selective ? ActivationCheckpointingConfig{.blocks = SelectiveOpConfig{}} : full_checkpointing(),
          at::kCPU);
      const std::vector<at::Tensor> expected = with_autocast(*plain, n.input);
      const std::vector<at::Tensor> actual = with_autocast(*model, n.input);
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(actual[i].equal(expected[i]));
    }
}

/// How often each block was run.
std::map<std::string, int> runs_of_blocks(model::Model& model, const model::ModelInput& input) {
  std::map<std::string, int> runs;
  model.set_block_runner(
      [&](const model::Block& block, const at::Tensor& value, const model::SequenceContext& context) {
        ++runs[block.name];
        return block.forward(value, context);
      });
  testing::loss_of(model, input).backward();
  return runs;
}

TEST_CASE("a number as an operand takes no place among the saved tensors", "[activation_checkpointing][regression]") {
  install_saved_tensor_hooks();
  const model::Passage passage = [](const at::Tensor& input, const model::SequenceContext&) {
    const at::Tensor two = at::full({}, 2.0, at::kDouble);
    two.unsafeGetTensorImpl()->set_wrapped_number(true);
    return input.sin().mul(two);
  };
  const at::Tensor input = at::ones({3}).requires_grad_(true);
  run_recomputed(passage, input, {}, {}).sum().backward();
  CHECK(input.grad().allclose(input.detach().cos().mul(2)));
}

TEST_CASE("blocks are recomputed through the block runner, the last one never", "[activation_checkpointing]") {
  const Net n = net("gpt2");  // embeddings, six blocks, head
  const auto recomputed = [&](const ActivationCheckpointingConfig& config) {
    const std::unique_ptr<model::Model> model = testing::ready(n);
    checkpoint_activations(*model, config, at::kCPU);
    std::string twice;
    for (const model::Block& block : model->blocks()) {
      const int runs = runs_of_blocks(*model, n.input)[block.name];
      REQUIRE((runs == 1 || runs == 2));
      twice += runs == 2 ? '2' : '1';
    }
    return twice;
  };
  CHECK(recomputed({}) == "11111111");
  CHECK(recomputed(full_checkpointing()) == "22222221");
  CHECK(recomputed({.blocks = EveryNthBlockConfig{.n = 3}}) == "11211211");
  CHECK(recomputed({.blocks = BlockPatternConfig{.modules = {"transformer.h.?"}}}) == "12222221");
  CHECK(recomputed({.blocks = BlockPatternConfig{.modules = {"h.0", "transformer.h.4"}}}) == "12111211");
}

TEST_CASE("nothing is recomputed without gradients or with a cache", "[activation_checkpointing]") {
  const Net n = net("gpt2");
  const std::unique_ptr<model::Model> model = testing::ready(n);
  const std::unique_ptr<model::Model> plain = testing::ready(n);
  checkpoint_activations(*model, full_checkpointing(), at::kCPU);
  model->set_training(false);
  plain->set_training(false);
  {
    const c10::NoGradGuard no_grad;
    model::KeyValueCache cache, plain_cache;
    model::ModelInput first = n.input, second = n.input;
    first.cache = &cache;
    second.cache = &plain_cache;
    CHECK(model->forward(first).equal(plain->forward(second)));
    CHECK_FALSE(model->forward(n.input).requires_grad());
  }
  CHECK(model->forward(n.input).equal(plain->forward(n.input)));
}

TEST_CASE("each gradient becomes ready once, and a graph that is kept can be run again", "[activation_checkpointing]") {
  const Net n = net("gpt2");
  const auto loss_of = [&](model::Model& model) {
    const runtime::SampleRandomness randomness({.seed = 2, .epoch = 1, .first_sample = 30});
    return model.forward(n.input).sin().sum();
  };
  const std::unique_ptr<model::Model> plain = testing::ready(n);
  loss_of(*plain).backward();
  const std::unique_ptr<model::Model> model = testing::ready(n);
  checkpoint_activations(*model, full_checkpointing(), at::kCPU);
  std::map<std::string, int> ready;
  struct Count final : torch::autograd::PostAccumulateGradHook {
    explicit Count(int& counter) : count(counter) {}
    void operator()(const torch::autograd::Variable&) override { ++count; }
    int& count;
  };
  for (const model::NamedTensor& named : model::named_parameters(*model))
    torch::autograd::impl::set_post_acc_grad_hooks(named.tensor, std::make_unique<Count>(ready[named.name]));
  const at::Tensor loss = loss_of(*model);
  loss.backward({}, /*retain_graph=*/true);
  CHECK(ready.size() == model::named_parameters(*model).size());
  for (const auto& [name, count] : ready) CHECK(count == 1);
  loss.backward();
  for (std::size_t i = 0; i < model::named_parameters(*plain).size(); ++i)
    CHECK(model::named_parameters(*model)[i].tensor.grad().equal(
        model::named_parameters(*plain)[i].tensor.grad().mul(2)));
}

TEST_CASE("frozen blocks and adapters are recomputed like others", "[activation_checkpointing]") {
  const Net n = net("gpt2");
  for (const std::string frozen : {"transformer.wte", "transformer.h.2", "transformer.h"}) {
    const auto frozen_model = [&] {
      std::unique_ptr<model::Model> model = testing::ready(n);
      for (const model::NamedTensor& named : model::named_parameters(*model))
        if (named.name.starts_with(frozen)) named.tensor.set_requires_grad(false);
      return model;
    };
    const Outcome expected = outcome_of(*frozen_model(), n.input);
    for (const ActivationCheckpointingConfig& config : ways()) {
      const std::unique_ptr<model::Model> model = frozen_model();
      checkpoint_activations(*model, config, at::kCPU);
      check_equal(outcome_of(*model, n.input), expected);
    }
  }
}

TEST_CASE("replicas in threads recompute each for itself", "[activation_checkpointing]") {
  const Net n = net("gpt2");
  const std::unique_ptr<model::Model> plain = testing::ready(n);
  const Outcome expected = outcome_of(*plain, n.input);
  std::vector<Outcome> outcomes(3);
  std::vector<std::unique_ptr<model::Model>> models;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    models.push_back(testing::ready(n));
    checkpoint_activations(*models[i], full_checkpointing(), at::kCPU);
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    threads.emplace_back([&, i] { outcomes[i] = outcome_of(*models[i], n.input); });
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) check_equal(outcome, expected);
}

TEST_CASE("a block that fails when it is recomputed fails the backward pass", "[activation_checkpointing]") {
  const Net n = net("gpt2");
  const std::unique_ptr<model::Model> model = testing::ready(n);
  checkpoint_activations(*model, full_checkpointing(), at::kCPU);
  const at::Tensor loss = testing::loss_of(*model, n.input);
  model->set_block_runner(
      [](const model::Block& block, const at::Tensor&, const model::SequenceContext&) -> at::Tensor {
        throw core::Error("no memory for " + block.name);
      });
  CHECK_THROWS_WITH(loss.backward(), Catch::Contains("no memory for transformer.h.5"));
  model->set_block_runner({});
  outcome_of(*model, n.input);  // all is well again
}

TEST_CASE("what names no block is an error that names them", "[activation_checkpointing]") {
  const std::unique_ptr<model::Model> model = testing::ready(net("gpt2"));
  const auto checkpoint = [&](const ActivationCheckpointingConfig& config) {
    checkpoint_activations(*model, config, at::kCPU);
  };
  CHECK_THROWS_WITH(checkpoint({.blocks = BlockPatternConfig{.modules = {"layer.0"}}}),
                    Catch::Contains("no block that can be recomputed is called `layer.0`"));
  CHECK_THROWS_WITH(checkpoint({.blocks = BlockPatternConfig{.modules = {"head"}}}), Catch::Contains("`head`"));
  CHECK_THROWS_WITH(checkpoint({.blocks = EveryNthBlockConfig{.n = 8}}), Catch::Contains("7 blocks"));
}

}  // namespace
}  // namespace trainctl::activation_checkpointing
