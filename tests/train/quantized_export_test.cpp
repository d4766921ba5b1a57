// Networks in fewer bits as ONNX files: what runtimes make of them is what our engines compute.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>

#include <catch2/catch.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "deploy/deploy.h"
#include "quantization/quantization.h"
#include "support/python.h"
#include "support/scratch.h"

namespace trainctl {
namespace {

using namespace testing;  // NOLINT

const InputSpec kImages{.shape = {3, 32, 32}, .num_classes = 10};
const InputSpec kTokens{.shape = {24}, .vocab_size = 128};
const InputSpec kTexts{.shape = {24}, .num_classes = 5, .vocab_size = 128};

/// A value in the middle between two levels goes up in one runtime and down in another; each such level moves some of
/// the next layer's. After many layers, of weights that nobody trained, that is a few steps.
constexpr double kFewSteps = 6;

struct Case {
  std::string name;
  NetworkConfig network;
  InputSpec input;
  QuantizationRecipe recipe;
  double most_steps = 1;
};

QuantizationRecipe recipe(QuantizationMethod method, QuantizationBackend backend = QuantizationBackend::x86) {
  QuantizationRecipe made{.method = method, .backend = resolved(backend), .keep_float = {}};
  made.activation_bits = activation_bits(made.backend);
  return made;
}

QuantizationRecipe symmetric(std::int64_t bits) {
  QuantizationRecipe made = recipe(QuantizationMethod::static_, QuantizationBackend::qnnpack);
  made.activation_bits = bits;
  made.activations = ActivationLevels::symmetric;
  return made;
}

QuantizationRecipe of_weights(std::int64_t bits, std::int64_t group_size) {
  QuantizationRecipe made = recipe(QuantizationMethod::weight_only);
  made.weight_bits = bits;
  made.group_size = group_size;
  return made;
}

ResNetConfig<18> resnet() {
  ResNetConfig<18> config;
  config.stem = ResNetStem::cifar;
  return config;
}
VitConfig vit() {
  return {.hidden_size = 64, .num_layers = 2, .num_heads = 4, .intermediate_size = 128, .patch_size = 8};
}
BertConfig bert() {
  return {.hidden_size = 64, .num_layers = 2, .num_heads = 4, .intermediate_size = 128, .max_positions = 24};
}
Gpt2Config gpt2() {
  return {.hidden_size = 64, .num_layers = 2, .num_heads = 4, .max_positions = 24};
}

/// With statistics and biases as training leaves them.
std::unique_ptr<Model> made(const Case& which) {
  auto model = build(ModelConfig{.network = which.network}, which.input);
  materialize(*model, at::kCPU, /*seed=*/5, /*channels_last=*/false);
  const at::NoGradGuard no_grad;
  for (const NamedTensor& named : named_buffers(*model))
    if (named.name.ends_with("running_mean"))
      named.tensor.add_(at::randn(named.tensor.sizes()).mul_(0.1));
    else if (named.name.ends_with("running_var"))
      named.tensor.add_(at::rand(named.tensor.sizes()).mul_(0.2));
  model->set_training(false);
  return model;
}

at::Tensor samples(const InputSpec& input, std::int64_t count) {
  std::vector<std::int64_t> shape = input.shape;
  shape.insert(shape.begin(), count);
  return input.vocab_size > 0 ? at::randint(input.vocab_size, shape, at::kLong) : at::randn(shape);
}

void quantize(Model& model, const Case& which) {
  Quantization quantization(model, which.recipe, samples(which.input, 1));
  if (quantization.wants_calibration()) {
    quantization.watch();
    model.forward(samples(which.input, 16));
  }
  quantization.convert();
  quantization.finish();
}

/// Of the last layer's levels; 0: it gives floats.
double step_of_output(Model& model) {
  double step = 0;
  model.visit_buffers([&](const std::string& name, Slot& slot) {
    if (name.ends_with("output_scale")) step = slot.value.item<double>();
  });
  return step;
}

struct ExportedCase {
  std::unique_ptr<Model> model;
  ModelCard card;
  std::filesystem::path path;
};

ExportedCase exported(const Case& which, const Scratch& scratch) {
  // Samples are the case's own, whatever other tests drew before. Of seeds 1 to 12 two (1, 5) have a sample of an
  // untrained ViT 1.6 and 4 steps away, where a value lies between two levels; on other processors the same two.
  at::manual_seed(2);
  ExportedCase made_case{.model = made(which), .card = {}, .path = scratch / (which.name + ".onnx")};
  made_case.card.name = which.name;
  made_case.card.format = ArtefactFormat::onnx;
  made_case.card.signature = signature_of(which.network, facts_of(*made_case.model, which.input.shape));
  quantize(*made_case.model, which);
  export_graph(*made_case.model, made_case.card, made_case.path);
  return made_case;
}

/// Inputs and what our engine makes of them, for Python; how far our own reader of the file is from that, in steps.
double write_samples(const Case& which, const ExportedCase& of, const Scratch& scratch) {
  const double step = step_of_output(*of.model);
  const std::unique_ptr<Model> written = open_graph(of.path, of.card.signature);
  double furthest = 0;
  for (const std::int64_t count : {1, 2, 3}) {
    const ModelInput input{.values = samples(which.input, count)};
    furthest = std::max(furthest, compare(*of.model, *written, {input}).absolute);
    TensorMap tensors{{"logits", of.model->forward(input)},
                      {"step", at::scalar_tensor(step, at::kFloat)},
                      {"most_steps", at::scalar_tensor(which.most_steps, at::kFloat)}};
    const std::vector<at::Tensor> inputs = graph_inputs(of.card.signature, input);
    for (std::size_t i = 0; i < inputs.size(); ++i) tensors[of.card.signature.inputs[i].name] = inputs[i];
    write_safetensors(scratch / (which.name + "." + std::to_string(count) + ".safetensors"), tensors, {},
                      Durability::process);
  }
  return step > 0 ? furthest / step : furthest;
}

std::vector<Case> static_cases() {
  const auto x86 = recipe(QuantizationMethod::static_);
  const auto onednn = recipe(QuantizationMethod::static_, QuantizationBackend::onednn);
  CnnConfig cnn;
  cnn.batch_norm = true;
  WideResNetConfig wide;
  wide.depth = 10;
  wide.widen_factor = 1;
  QuantizationRecipe partly = onednn;
  partly.keep_float = {"layer2.0.conv1", "fc"};
  return {{"cnn_x86", cnn, kImages, x86},
          {"cnn_onednn", cnn, kImages, onednn},
          {"cnn_symmetric", cnn, kImages, symmetric(8)},
          {"resnet18_x86", resnet(), kImages, x86, kFewSteps},
          {"resnet18_onednn", resnet(), kImages, onednn, kFewSteps},
          {"resnet18_symmetric", resnet(), kImages, symmetric(8), kFewSteps},
          {"resnet18_symmetric7", resnet(), kImages, symmetric(7), kFewSteps},
          {"resnet18_partly", resnet(), kImages, partly, kFewSteps},
          {"wide_resnet", wide, kImages, onednn, kFewSteps},
          {"mlp", MlpConfig{.hidden = {32}}, kImages, x86},
          {"vit_x86", vit(), kImages, x86},
          {"vit_onednn", vit(), kImages, onednn, kFewSteps},
          {"vit_symmetric", vit(), kImages, symmetric(8)},
          {"bert_static", bert(), kTexts, x86}};
}

std::vector<Case> other_cases() {
  return {{"vit_dynamic", vit(), kImages, recipe(QuantizationMethod::dynamic)},
          {"bert_dynamic", bert(), kTexts, recipe(QuantizationMethod::dynamic)},
          {"gpt2_dynamic", gpt2(), kTokens, recipe(QuantizationMethod::dynamic, QuantizationBackend::qnnpack)},
          {"gpt2_rows", gpt2(), kTokens, of_weights(8, 0)},
          {"gpt2_groups", gpt2(), kTokens, of_weights(8, 32)},
          {"gpt2_four_bits", gpt2(), kTokens, of_weights(4, 32)}};
}

TEST_CASE("static eight bits as ONNX agree with ours within a step of the output", "[train][reference]") {
  const at::NoGradGuard no_grad;
  const Scratch scratch;
  for (const Case& which : static_cases()) {
    INFO(which.name);
    const ExportedCase of = exported(which, scratch);
    CHECK(write_samples(which, of, scratch) < which.most_steps + 0.01);
    const std::vector<std::string> problems = tensorrt_problems(of.path);
    CHECK(problems.empty() == (which.name.find("symmetric") != std::string::npos));
    for (const std::string& problem : problems)
      CHECK_THAT(problem, Catch::Contains("symmetric") || Catch::Contains("Gather"));
  }
  run_python("quantized_onnx.py", scratch.path());
}

TEST_CASE("dynamic and weight-only forms as ONNX agree with ours", "[train][reference]") {
  const at::NoGradGuard no_grad;
  const Scratch scratch;
  for (const Case& which : other_cases()) {
    INFO(which.name);
    const ExportedCase of = exported(which, scratch);
    CHECK(write_samples(which, of, scratch) < 1e-2);
    CHECK_FALSE(tensorrt_problems(of.path).empty());
  }
  run_python("quantized_onnx.py", scratch.path());
}

TEST_CASE("an LSTM in eight bits is refused as a graph, with what to do", "[train]") {
  const at::NoGradGuard no_grad;
  const Scratch scratch;
  const Case lstm{"lstm", LstmConfig{.hidden_size = 32}, kTexts, recipe(QuantizationMethod::dynamic)};
  CHECK_THROWS_WITH(exported(lstm, scratch), Catch::Contains("rounds its states at every step"));
}

}  // namespace
}  // namespace trainctl
