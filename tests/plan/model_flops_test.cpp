// A network's closed form of its FLOPs against the table of operators, for every kind of network.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "model/model.h"
#include "roofline/operations.h"

namespace trainctl::plan {
namespace {

constexpr std::int64_t kBatch = 2;

/// Makes a network small enough to run here.
template <class Config>
Config small() {
  Config config;
  if constexpr (requires { config.layers; }) config = Config::starter();
  if constexpr (requires { config.hidden_size = 32; }) config.hidden_size = 32;
  if constexpr (requires { config.num_layers = 2; }) config.num_layers = 2;
  if constexpr (requires { config.num_heads = 2; }) config.num_heads = 2;
  if constexpr (requires { config.intermediate_size = 48; }) config.intermediate_size = 48;
  if constexpr (requires { config.patch_size = 8; }) config.patch_size = 8;
  if constexpr (requires { config.depth = 10; }) config.depth = 10;
  if constexpr (requires { config.widen_factor = 1; }) config.widen_factor = 1;
  if constexpr (requires { config.num_buckets = 100; }) config.num_buckets = 100;
  return config;
}

/// Returns the FLOPs of a forward pass by the table, which counts half of causal attention. The closed form counts all
/// of it, as is usual for the utilization of models.
double forward_flops(model::Model& model, const model::ModelInput& input, bool is_causal) {
  const at::NoGradGuard no_grad;
  roofline::OperationRecorder recorder;
  model.forward(input);
  const roofline::Operations seen = recorder.take();
  double sum = 0;
  for (const roofline::Operation& operation : seen.list)
    sum += operation.flops * (is_causal && operation.kind == roofline::WorkKind::attention ? 2 : 1);
  return sum;
}

template <class Config>
void check_flops() {
  CAPTURE(Config::kind);
  constexpr bool takes_tokens = *Config::traits.input == model::Input::tokens;
  constexpr bool is_causal = std::same_as<Config, model::Gpt2Config> || std::same_as<Config, model::LlamaConfig>;
  const model::InputSpec spec = takes_tokens ? model::InputSpec{.shape = {16}, .vocab_size = 50}
                                             : model::InputSpec{.shape = {3, 32, 32}, .num_classes = 10};
  const std::unique_ptr<model::Model> network = model::build(model::ModelConfig{.network = small<Config>()}, spec);
  model::materialize(*network, at::kMeta, /*seed=*/1, /*channels_last=*/false);
  network->set_training(false);
  const at::TensorOptions floats(at::kMeta);  // no values: the operators are the same
  const at::Tensor input =
      takes_tokens ? at::zeros({kBatch, 16}, floats.dtype(at::kLong)) : at::zeros({kBatch, 3, 32, 32}, floats);
  const double expected = static_cast<double>(kBatch) * network->flops_per_sample();
  model::ModelInput whole{.values = input};
  if (std::same_as<Config, model::T5Config>) whole.decoder_values = input;
  CHECK(forward_flops(*network, whole, is_causal) == Approx(expected).epsilon(1e-9));
}

/// A scripted module has no closed form, and says so by 0.
template <class... Configs>
void check_all(const std::variant<Configs...>&) {
  const auto check = []<class Config>(std::type_identity<Config>) {
    if constexpr (!std::same_as<Config, model::TorchScriptConfig>) check_flops<Config>();
  };
  (check(std::type_identity<Configs>()), ...);
}

TEST_CASE("A network's FLOPs per sample are the sum over its operators", "[plan]") {
  check_all(model::OwnNetworkConfig{}.value);
}

}  // namespace
}  // namespace trainctl::plan
