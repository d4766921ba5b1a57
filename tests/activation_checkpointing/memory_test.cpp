// What is held between forward and backward, by the host allocator's own accounting.
#include <ATen/ops/zeros_like.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <optional>

#include "activation_checkpointing/activation_checkpointing.h"
#include "activation_checkpointing/networks.h"
#include "model/deferred_weight_gradients.h"
#include "runtime/memory.h"
#include "runtime/sample_randomness.h"

namespace trainctl::activation_checkpointing {
namespace {

struct Use {
  double held = 0;  // after the forward pass, in MiB
  double peak = 0;  // of the step, beyond weights and gradients
  std::vector<at::Tensor> gradients{};
};

testing::Net deep_transformer(std::int64_t num_layers) {
  model::Gpt2Config config{.hidden_size = 128, .num_layers = num_layers, .num_heads = 4};
  config.max_position_embeddings = 128;
  return {.name = "gpt2",
          .config = {.network = config, .memory_format = {}, .init_from = {}},
          .spec = {.shape = {128}, .vocab_size = 256},
          .input = {.values = at::randint(0, 256, {4, 128}, at::kLong)}};
}

enum class BackwardPass { whole, split };

Use use_of(const testing::Net& net, const ActivationCheckpointingConfig& config,
           BackwardPass pass = BackwardPass::whole) {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  const std::unique_ptr<model::Model> model = testing::ready(net);
  std::optional<model::DeferredWeightGradients> deferred;
  if (pass == BackwardPass::split) deferred.emplace(*model);
  checkpoint_activations(*model, config, at::kCPU);
  for (const model::NamedTensor& named : model::named_parameters(*model))
    named.tensor.mutable_grad() = at::zeros_like(named.tensor);
  const std::int64_t before = runtime::host_memory().current;
  runtime::reset_host_peak();
  at::Tensor loss;
  {
    const runtime::SampleRandomness randomness({.seed = 1});
    loss = testing::loss_of(*model, net.input);
  }
  Use use{.held = static_cast<double>(runtime::host_memory().current - before) / (1 << 20)};
  loss.backward();
  if (deferred)
    for (const std::function<void()>& add_gradients : deferred->take()) add_gradients();
  use.peak = static_cast<double>(runtime::host_memory().peak - before) / (1 << 20);
  for (const model::NamedTensor& named : model::named_parameters(*model)) use.gradients.push_back(named.tensor.grad());
  return use;
}

TEST_CASE("recomputing every block holds a tenth of a transformer's activations, runs of √n blocks even less",
          "[activation_checkpointing]") {
  const testing::Net net = deep_transformer(16);
  const Use plain = use_of(net, {});
  const Use every = use_of(net, testing::full_checkpointing());
  const Use half = use_of(net, {.blocks = EveryNthBlockConfig{.n = 2}});
  const Use root = use_of(net, {.blocks = SqrtCheckpointingConfig{}});
  const Use selective = use_of(net, {.blocks = SelectiveOpConfig{}});
  WARN("MiB held, peak: none " << plain.held << ", " << plain.peak << "; full " << every.held << ", " << every.peak
                               << "; every 2nd " << half.held << ", " << half.peak << "; sqrt " << root.held << ", "
                               << root.peak << "; selective " << selective.held << ", " << selective.peak);
  CHECK(every.held <= plain.held / 10);
  CHECK(root.held < every.held);
  // A run of blocks is there at once when it is recomputed.
  CHECK(every.peak < root.peak);
  CHECK(root.peak < plain.peak);
  CHECK(half.held < 0.65 * plain.held);
  CHECK(every.held < selective.held);
  CHECK(selective.held < 0.8 * plain.held);
}

TEST_CASE("bf16 halves what is held and rounds gradients, but no weight", "[activation_checkpointing]") {
  const testing::Net net = deep_transformer(4);
  const Use plain = use_of(net, {});
  for (const auto& [exact, config] : std::vector<std::pair<Use, ActivationCheckpointingConfig>>{
           {plain, {.storage_dtype = ActivationStorage::bf16}},
           {use_of(net, testing::full_checkpointing()),
            {.blocks = FullCheckpointingConfig{}, .storage_dtype = ActivationStorage::bf16}},
           {use_of(net, {.blocks = SelectiveOpConfig{}}),
            {.blocks = SelectiveOpConfig{}, .storage_dtype = ActivationStorage::bf16}}}) {
    const Use packed = use_of(net, config);
    INFO(config.blocks.kind() << ": " << packed.held << " of " << exact.held << " MiB");
    CHECK(packed.held < 0.7 * exact.held);
    double furthest = 0;
    for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
      const double apart =
          packed.gradients[i].sub(plain.gradients[i]).norm().item<double>() / plain.gradients[i].norm().item<double>();
      CHECK(apart < 0.03);
      furthest = std::max(furthest, apart);
    }
    CHECK(furthest > 1e-4);
  }
}

TEST_CASE("recomputation holds no more where the backward pass is split", "[activation_checkpointing][regression]") {
  const testing::Net net = deep_transformer(4);
  const Use plain = use_of(net, {}, BackwardPass::split);
  const Use every = use_of(net, testing::full_checkpointing());
  const Use split = use_of(net, testing::full_checkpointing(), BackwardPass::split);
  CAPTURE(plain.held, every.held, split.held);
  CHECK(split.held < 1.2 * every.held);
  CHECK(split.held < plain.held / 2);
  for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
    CHECK(split.gradients[i].equal(plain.gradients[i]));
    CHECK(split.gradients[i].allclose(every.gradients[i], 1e-4, 1e-6));
  }
}

}  // namespace
}  // namespace trainctl::activation_checkpointing
