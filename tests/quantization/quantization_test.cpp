// Whole models in fewer bits: how far they are from the floats, what they weigh, and that they come back from disk.
#include "quantization/quantization.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "config/parse.h"
#include "config/read.h"
#include "core/error.h"
#include "quantization/backend.h"
#include "quantization/measure.h"
#include "support/temporary_directory.h"

namespace trainctl::quantization::quantization_test {
namespace {

constexpr std::uint64_t kSeed = 7;
const model::InputSpec kImages{.shape = {3, 16, 16}, .num_classes = 10};
const model::InputSpec kTokens{.shape = {24}, .vocab_size = 128};
const model::InputSpec kTexts{.shape = {24}, .num_classes = 5, .vocab_size = 128};

template <class Network>
std::unique_ptr<model::Model> made(const Network& network, const model::InputSpec& input) {
  model::ModelConfig config;
  config.network = model::NetworkConfig(network);
  std::unique_ptr<model::Model> model = model::build(config, input);
  model::materialize(*model, at::kCPU, kSeed, model->prefers_channels_last());
  model->set_training(false);
  return model;
}

model::ResNetConfig<18> resnet() {
  model::ResNetConfig<18> config;
  config.stem = model::ResNetStem::cifar;
  return config;
}

model::BertConfig bert() {
  model::BertConfig config;
  config.hidden_size = 64;
  config.num_layers = 2;
  config.num_heads = 4;
  config.intermediate_size = 128;
  config.max_position_embeddings = 64;
  return config;
}

model::Gpt2Config gpt2() {
  model::Gpt2Config config;
  config.hidden_size = 64;
  config.num_layers = 2;
  config.num_heads = 4;
  config.max_position_embeddings = 64;
  return config;
}

at::Tensor some_images(std::int64_t count) {
  return at::arange(count * 3 * 256, at::kFloat)
      .mul(0.7)
      .sin()
      .mul(1.5)
      .view({count, 3, 16, 16})
      .contiguous(at::MemoryFormat::ChannelsLast);
}
/// Reads the network of configs/layers/`name`.yaml.
model::LayersConfig listed(const std::string& name) {
  config::Problems problems;
  const auto file = config::parse_file(
      std::filesystem::path(TRAINCTL_SOURCE_DIR) / "configs" / "layers" / (name + ".yaml"), problems);
  const auto read = config::read<model::ModelConfig>(*file->find("model"), problems, "model");
  problems.throw_if_any();
  return *read.network.get_if<model::LayersConfig>();
}

at::Tensor some_ids(std::int64_t count) {
  return at::arange(count * 24, at::kLong).mul(37).remainder(128).view({count, 24});
}

QuantizationRecipe recipe(QuantizationMethod method) {
  QuantizationRecipe made{.method = method, .backend = resolved(QuantizationBackend::auto_), .skip_modules = {}};
  made.activation_bits = activation_bits(made.backend);
  return made;
}

double relative_error(const at::Tensor& value, const at::Tensor& wanted) {
  return value.sub(wanted).norm().item<double>() / wanted.norm().item<double>();
}

struct Outcome {
  double error = 0;
  double size = 0;  // against the floats
  at::Tensor output;
};

/// Quantizes the model as the command does, calibrating on `input`.
Outcome quantized(model::Model& model, const QuantizationRecipe& how, const at::Tensor& input,
                  const std::filesystem::path& directory = {}) {
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = model.forward(input);
  const auto before = static_cast<double>(size_of(model));
  Quantization quantization(model, how, input.narrow(0, 0, 1));
  if (quantization.wants_calibration()) {
    quantization.watch();
    model.forward(input);
  }
  quantization.convert();
  quantization.finish();
  if (!directory.empty()) save_quantized(model, quantization, directory);
  const at::Tensor output = model.forward(input);
  return {
      .error = relative_error(output, wanted), .size = static_cast<double>(size_of(model)) / before, .output = output};
}

std::string failure_of(model::Model& model, const std::filesystem::path& directory, const at::Tensor& example) {
  try {
    load_quantized(model, directory, example);
  } catch (const core::Error& error) {
    return error.text();
  }
  return "";
}

void overwrite(const std::filesystem::path& path, std::int64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset, offset < 0 ? std::ios::end : std::ios::beg);
  file << bytes;
}

}  // namespace

TEST_CASE("networks for images stay near the floats at a quarter of the size", "[quantization]") {
  const at::Tensor images = some_images(8);
  const auto check = [&](const auto& network, double size) {
    auto model = made(network, kImages);
    const Outcome outcome = quantized(*model, recipe(QuantizationMethod::static_), images);
    CHECK(outcome.error < 0.12);
    CHECK(outcome.size < size);
    CHECK_FALSE(outcome.output.is_quantized());
  };
  check(resnet(), 0.27);
  check(model::CnnConfig{}, 0.27);
  model::CnnConfig normed;
  normed.batch_norm = true;
  check(normed, 0.27);
  check(model::MlpConfig{}, 0.27);
  model::WideResNetConfig wide;
  wide.depth = 10;
  wide.widen_factor = 2;
  check(wide, 0.27);
}

TEST_CASE("networks that are listed layer by layer are quantized as those of other kinds", "[quantization]") {
  const at::Tensor images = some_images(8);
  const testing::TemporaryDirectory scratch;
  struct Listed {
    std::string name;
    double error;
    double size;
    std::vector<std::string> floats;  // kinds
  };
  for (const Listed& one : {Listed{"resnet20", 0.12, 0.27, {}},
                            {"densenet", 0.12, 0.3, {}},
                            {"mobilenet_v2", 0.25, 0.3, {}},
                            {"efficientnet_b0", 0.25, 0.3, {}},
                            {"unet", 0.12, 0.37, {"conv_transpose2d"}},
                            {"image_transformer", 0.12, 0.3, {"layer_norm", "position_embedding"}}}) {
    INFO(one.name);
    auto model = made(listed(one.name), kImages);
    auto looked_at = made(listed(one.name), kImages);
    const Quantization choices(*looked_at, recipe(QuantizationMethod::static_), images.narrow(0, 0, 1));
    for (const LayerChoice& layer : choices.layers()) {
      INFO(layer.name << ": " << layer.kept_because);
      const bool is_float = std::any_of(one.floats.begin(), one.floats.end(), [&](const std::string& kind) {
        return layer.kept_because.starts_with(kind + " ");
      });
      CHECK(layer.kept_because.empty() != is_float);
    }
    const std::filesystem::path directory = scratch.path() / one.name;
    const Outcome outcome = quantized(*model, recipe(QuantizationMethod::static_), images, directory);
    CHECK(outcome.error < one.error);
    CHECK(outcome.size < one.size);
    auto again = made(listed(one.name), kImages);
    load_quantized(*again, directory, at::zeros_like(images.narrow(0, 0, 1)));
    const at::NoGradGuard no_grad;
    CHECK(again->forward(images).equal(outcome.output));
  }
}

TEST_CASE("layers that stay in float are listed with their kind", "[quantization]") {
  auto model = made(listed("resnet20"), kImages);
  const Quantization dynamic(*model, recipe(QuantizationMethod::dynamic), some_images(1));
  std::map<std::string, std::int64_t> kinds;
  std::int64_t num_weights = 0;
  for (const LayerChoice& layer : dynamic.layers()) {
    ++kinds[layer.kept_because.substr(0, layer.kept_because.find_first_of(" :"))];
    num_weights += layer.num_weights;
  }
  CHECK(kinds == std::map<std::string, std::int64_t>{{"", 1}, {"batch_norm", 21}, {"conv2d", 21}});
  CHECK(num_weights == 272'464);  // all but the ten biases of the last layer
}

TEST_CASE("every engine gives the same levels", "[quantization]") {
  const at::Tensor images = some_images(4);
  at::Tensor first;
  for (const auto backend : {QuantizationBackend::x86, QuantizationBackend::fbgemm, QuantizationBackend::onednn,
                             QuantizationBackend::qnnpack}) {
    auto model = made(resnet(), kImages);
    QuantizationRecipe how = recipe(QuantizationMethod::static_);
    how.backend = resolved(backend);
    how.activation_bits = 7;
    INFO(config::name_of(backend));
    const Outcome outcome = quantized(*model, how, images);
    CHECK(outcome.error < 0.15);
    if (!first.defined()) first = outcome.output;
    CHECK(at::equal(outcome.output, first));
  }
}

TEST_CASE("every engine takes max pooling of one pixel", "[quantization]") {
  using namespace layer_graph;  // NOLINT(google-build-using-namespace): a list of nothing else
  const model::LayersConfig listed{.layers = {{Conv2dLayer{.channels = 8}},
                                              {MaxPoolLayer{.kernel_size = 1, .stride = 2}},
                                              {GlobalAvgPoolLayer{}},
                                              {LinearLayer{}}}};
  for (const auto backend : {QuantizationBackend::x86, QuantizationBackend::fbgemm, QuantizationBackend::onednn,
                             QuantizationBackend::qnnpack}) {
    INFO(config::name_of(backend));
    QuantizationRecipe how = recipe(QuantizationMethod::static_);
    how.backend = resolved(backend);
    how.activation_bits = 7;
    CHECK(quantized(*made(listed, kImages), how, some_images(4)).error < 0.12);
  }
}

TEST_CASE("sums and scales have levels of their own, whatever layers are called", "[quantization][regression]") {
  using namespace layer_graph;  // NOLINT(google-build-using-namespace): a list of nothing else
  const Conv2dLayer conv{.channels = 8};
  const auto listed = [&](const std::string& name, const std::string& scale) {
    const LayerList inner{{conv, name},
                          {LayerScaleLayer{.init_value = 1}, scale},
                          {conv},
                          {AddLayer{.with = {name}}},
                          {LayerScaleLayer{.init_value = 0.5}},
                          {conv}};
    return model::LayersConfig{.layers = {{conv},
                                          {RepeatLayer{.times = 2, .layers = inner}},
                                          {ResidualLayer{.layers = inner}},
                                          {SequenceLayer{.layers = inner}},
                                          {GlobalAvgPoolLayer{}},
                                          {LinearLayer{}}}};
  };
  const at::Tensor images = some_images(4);
  const testing::TemporaryDirectory scratch;
  for (const std::string name : {"plain", "add0"}) {
    INFO(name);
    const auto model = made(listed(name, "scale"), kImages);
    const Outcome outcome = quantized(*model, recipe(QuantizationMethod::static_), images, scratch / name);
    const auto again = made(listed(name, "scale"), kImages);
    load_quantized(*again, scratch / name, at::zeros_like(images.narrow(0, 0, 1)));
    const at::NoGradGuard no_grad;
    CHECK(again->forward(images).equal(outcome.output));
    CHECK(outcome.error < 0.3);
  }
  const auto model = made(listed("plain", "input_scale"), kImages);
  CHECK_THROWS_WITH(quantized(*model, recipe(QuantizationMethod::static_), images), Catch::Contains("input_scale"));
}

TEST_CASE("an operator that this LibTorch lacks is an error that names it", "[quantization]") {
  CHECK(find_operator("quantized::linear_prepack").schema().name() == "quantized::linear_prepack");
  CHECK_THROWS_WITH(find_operator("quantized::no_such_operator"),
                    Catch::Contains("lacks the operator quantized::no_such_operator"));
}

TEST_CASE("symmetric levels have eight bits, with an engine that has them on this CPU", "[quantization]") {
  for (const RowsAtOnce rows : {RowsAtOnce::few, RowsAtOnce::many})
    CHECK(activation_bits(resolved(QuantizationBackend::auto_, rows, ActivationScheme::symmetric)) == 8);
  CHECK_THROWS_AS(check_activations(7, ActivationScheme::symmetric), core::Error);
  CHECK_NOTHROW(check_activations(8, ActivationScheme::symmetric));
  CHECK_NOTHROW(check_activations(7, ActivationScheme::affine));
}

TEST_CASE("a quantized model comes back from disk to the bit", "[quantization]") {
  const testing::TemporaryDirectory scratch;
  const auto check = [&](const auto& network, const model::InputSpec& spec, const QuantizationRecipe& how,
                         const at::Tensor& input) {
    const std::filesystem::path directory = scratch.path() / config::name_of(how.method);
    auto model = made(network, spec);
    const Outcome outcome = quantized(*model, how, input, directory);
    auto again = made(network, spec);
    load_quantized(*again, directory, at::zeros_like(input.narrow(0, 0, 1)));
    const at::NoGradGuard no_grad;
    CHECK(again->forward(input).equal(outcome.output));
  };
  QuantizationRecipe partly = recipe(QuantizationMethod::static_);
  partly.skip_modules = {"layer2.0.conv1", "fc"};
  check(resnet(), kImages, partly, some_images(4));
  check(bert(), kTexts, recipe(QuantizationMethod::dynamic), some_ids(3));
  QuantizationRecipe grouped = recipe(QuantizationMethod::weight_only);
  grouped.weight_bits = 4;
  grouped.group_size = 32;
  check(gpt2(), kTokens, grouped, some_ids(2));
}

TEST_CASE("networks for text are quantized by products, tables and heads", "[quantization]") {
  auto classifier = made(bert(), kTexts);
  const Outcome dynamic = quantized(*classifier, recipe(QuantizationMethod::dynamic), some_ids(4));
  CHECK(dynamic.error < 0.1);
  CHECK(dynamic.size < 0.3);
  auto ahead = made(bert(), kTexts);
  CHECK(quantized(*ahead, recipe(QuantizationMethod::static_), some_ids(4)).error < 0.2);

  auto language_model = made(gpt2(), kTokens);
  const Outcome rows = quantized(*language_model, recipe(QuantizationMethod::weight_only), some_ids(2));
  CHECK(rows.error < 0.02);
  CHECK(rows.size < 0.29);
  REQUIRE(language_model->vocabulary_head() != nullptr);
  for (const auto& [bits, most, size] : {std::tuple{std::int64_t{8}, 0.02, 0.35}, {std::int64_t{4}, 0.2, 0.25}}) {
    QuantizationRecipe grouped = recipe(QuantizationMethod::weight_only);
    grouped.weight_bits = bits;
    grouped.group_size = 32;
    auto model = made(gpt2(), kTokens);
    const Outcome outcome = quantized(*model, grouped, some_ids(2));
    INFO(bits << " bits: " << outcome.error);
    CHECK(outcome.error < most);
    CHECK(outcome.size < size);
    // One row goes another way than many.
    const at::NoGradGuard no_grad;
    CHECK(relative_error(model->forward(some_ids(1).narrow(1, 0, 2)), outcome.output.narrow(0, 0, 1).narrow(1, 0, 2)) <
          1e-4);
  }
}

TEST_CASE("an LSTM computes in eight bits over whole and padded rows", "[quantization]") {
  model::LstmConfig config;
  config.embedding_size = 64;
  config.hidden_size = 64;
  config.bidirectional = true;
  auto model = made(config, kTexts);
  auto padded = made(config, kTexts);
  const Outcome outcome = quantized(*model, recipe(QuantizationMethod::dynamic), some_ids(4));
  CHECK(outcome.error < 0.1);
  CHECK(outcome.size < 0.3);
  const at::NoGradGuard no_grad;
  const model::ModelInput input{.values = some_ids(4), .key_mask = at::arange(24).lt(15).expand({4, 24})};
  CHECK(relative_error(model->forward(input), padded->forward(input)) < 0.1);
}

TEST_CASE("layers stay in float by name, and a name without a layer is refused", "[quantization]") {
  auto model = made(resnet(), kImages);
  QuantizationRecipe how = recipe(QuantizationMethod::static_);
  how.skip_modules = {"layer1.*", "conv1", "fc"};
  Quantization quantization(*model, how, some_images(1));
  for (const LayerChoice& layer : quantization.layers()) {
    INFO(layer.name);
    const bool is_kept = layer.name.starts_with("layer1.") || layer.name.ends_with("conv1") || layer.name == "fc";
    CHECK(layer.kept_because == (is_kept ? "asked for" : ""));
    CHECK(layer.num_weights > 0);
  }
  CHECK(quantization.layers().size() == 21);
  quantization.watch();
  const at::NoGradGuard no_grad;
  model->forward(some_images(4));
  quantization.convert();
  quantization.finish();
  bool found = false;
  model->visit_buffers([&](const std::string& name, model::TensorDecl& decl) {
    if (name != "layer1.0.conv1.weight") return;
    found = true;
    CHECK(decl.value.scalar_type() == at::kFloat);
  });
  CHECK(found);

  auto other = made(resnet(), kImages);
  how.skip_modules = {"layer9.*"};
  CHECK_THROWS_AS(Quantization(*other, how, some_images(1)), core::Error);
}

TEST_CASE("a sweep names the layer that errs most", "[quantization]") {
  auto model = made(resnet(), kImages);
  Quantization quantization(*model, recipe(QuantizationMethod::static_), some_images(1));
  quantization.watch();
  const at::NoGradGuard no_grad;
  model->forward(some_images(4));
  quantization.convert();
  const auto errors = sweep(quantization, *model, {.values = some_images(4)}, [] { return NamedMetrics{}; });
  REQUIRE(errors.size() == 21);
  CHECK(errors.front().relative_error >= errors.back().relative_error);
  CHECK(errors.back().relative_error > 0);
  const auto blocks = block_errors(quantization, *model, {.values = some_images(4)});
  REQUIRE(blocks.size() == model->blocks().size());
  CHECK(blocks.front().relative_error < 0.05);
}

TEST_CASE("damaged quantized models are refused with a reason", "[quantization]") {
  const testing::TemporaryDirectory scratch;
  const std::filesystem::path directory = scratch.path() / "q";
  const std::filesystem::path weights = directory / "quantized.safetensors";
  const std::filesystem::path description = directory / "quantization.json";
  const at::Tensor example = some_images(1);
  const auto save = [&] {
    auto model = made(resnet(), kImages);
    quantized(*model, recipe(QuantizationMethod::static_), some_images(4), directory);
  };
  const auto failure = [&] {
    auto model = made(resnet(), kImages);
    return failure_of(*model, directory, example);
  };
  save();
  CHECK(failure().empty());
  overwrite(weights, -100, "damage");
  CHECK_THAT(failure(), Catch::Contains("checksum"));
  save();
  std::filesystem::resize_file(weights, 1000);
  CHECK_THAT(failure(), Catch::Contains("checksum"));
  save();
  overwrite(description, 0, "[[[");
  CHECK_THAT(failure(), Catch::Contains("quantization.json is damaged"));
  std::filesystem::remove(description);
  CHECK_THAT(failure(), Catch::Contains("quantization.json"));
  save();
  auto other = made(model::CnnConfig{}, kImages);
  CHECK_THAT(failure_of(*other, directory, example), Catch::Contains("another network"));
}

TEST_CASE("a file of weights in bits or groups that no method has is refused", "[quantization][regression]") {
  const testing::TemporaryDirectory scratch;
  QuantizationRecipe grouped = recipe(QuantizationMethod::weight_only);
  grouped.weight_bits = 4;
  grouped.group_size = 32;
  auto model = made(gpt2(), kTokens);
  quantized(*model, grouped, some_ids(1), scratch.path());
  const std::filesystem::path description = scratch.path() / "quantization.json";
  const auto saved = nlohmann::json::parse(std::ifstream(description));
  const auto failure_with = [&](const nlohmann::json& keys) {
    nlohmann::json document = saved;
    document.update(keys);
    std::ofstream(description) << document;
    auto again = made(gpt2(), kTokens);
    return failure_of(*again, scratch.path(), some_ids(1));
  };
  CHECK(failure_with(nlohmann::json::object()).empty());
  for (const std::int64_t size : {0, 1, 16, -32, 1 << 20})
    CHECK_THAT(failure_with({{"group_size", size}}), Catch::Contains("expected a group size of 32, 64, 128 or 256"));
  for (const std::int64_t bits : {-4, 0, 5, 7})
    CHECK_THAT(failure_with({{"weight_bits", bits}}), Catch::Contains("expected 8 or 4 bits"));
  CHECK_THAT(failure_with({{"weight_bits", 8}, {"group_size", 3}}), Catch::Contains("expected a group size of 0, 32"));
  CHECK_THAT(failure_with({{"method", "dynamic"}}), Catch::Contains("weight_only"));
}

}  // namespace trainctl::quantization::quantization_test
