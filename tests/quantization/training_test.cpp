// Training for eight bits: what is rounded when, which gradients pass, and that int8 then gives what training saw.
#include "quantization/training.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/record_function.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "quantization/qat/fake_quantize.h"
#include "quantization/quantization.h"

namespace trainctl::quantization::training_test {
namespace {

const model::InputSpec kImages{.shape = {3, 16, 16}, .num_classes = 10};

model::ModelConfig resnet() {
  model::ResNetConfig<18> network;
  network.stem = model::ResNetStem::cifar;
  model::ModelConfig config;
  config.network = model::NetworkConfig(network);
  return config;
}

at::Tensor some_images(std::int64_t count) {
  return at::arange(count * 3 * 256, at::kFloat).mul(0.7).sin().mul(1.5).view({count, 3, 16, 16});
}

QuantizationConfig training(const QatConfig& qat) {
  QuantizationConfig config;
  config.training = qat;
  return config;
}

/// Gives a layer of its own memory and first values.
template <class L>
void materialized(L& layer) {
  const auto fill = [](const std::string&, model::TensorDecl& decl) {
    decl.value = at::full(decl.value.sizes(), decl.init.a, decl.value.options().device(at::kCPU));
  };
  layer.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    fill(name, decl);
    decl.value.set_requires_grad(true);
  });
  layer.visit_buffers(fill);
}

}  // namespace

TEST_CASE("a rounding passes gradients within its range and none beyond", "[quantization]") {
  ActivationRounding rounding(ScaleSource::observer, {.bits = 8});
  materialized(rounding);
  const at::Tensor seen = at::linspace(-1, 1, 100);
  const at::Tensor first = rounding(seen, {.rounds = false, .watches = true});
  CHECK(first.equal(seen));
  const at::Tensor value = at::linspace(-2, 2, 9).requires_grad_(true);
  const at::Tensor rounded = rounding(value, {.rounds = true, .watches = false});
  CHECK(rounded.max().item<double>() < 1.01);
  rounded.sum().backward();
  const at::Tensor inside = value.detach().abs().le(1);
  CHECK(value.grad().to(at::kBool).equal(inside));
  const std::optional<QParams> levels = rounding.levels();
  REQUIRE(levels);
  CHECK(levels->scale == Approx(2.0 / 255));
  CHECK((levels->zero_point == 127 || levels->zero_point == 128));  // 0 is half way between
}

TEST_CASE("learned steps begin as observed and get gradients", "[quantization]") {
  ActivationRounding rounding(ScaleSource::learned, {.bits = 8});
  materialized(rounding);
  const at::Tensor value = at::linspace(-1, 2, 301);
  rounding(value, {.rounds = false, .watches = true});
  const at::Tensor rounded = rounding(value.mul(1.5), {.rounds = true, .watches = true});
  rounded.sum().backward();
  rounding.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    CHECK(name == "step");
    CHECK(decl.value.item<double>() > 2.9 / 255);
    REQUIRE(decl.value.grad().defined());
    CHECK(decl.value.grad().abs().item<double>() > 0);
  });
}

thread_local int num_reads = 0;

TEST_CASE("the levels of learned steps are read with one wait for each number", "[quantization][regression]") {
  ActivationRounding rounding(ScaleSource::learned, {.bits = 8});
  materialized(rounding);
  const at::Tensor value = at::linspace(-1, 2, 301);
  rounding(value, {.rounds = false, .watches = true});
  for (const bool learns : {false, true}) {
    num_reads = 0;
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          if (std::string_view(function.name()) == "aten::_local_scalar_dense") ++num_reads;
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
    const std::optional<QParams> levels = rounding.levels();
    at::removeCallback(handle);
    CHECK(num_reads == 4);  // what was seen, whether it learns, scale and zero point
    REQUIRE(levels);
    CHECK(levels->scale == Approx(3.0 / 255));
    CHECK(levels->zero_point == 85);
    if (!learns) rounding(value, {.rounds = true, .watches = false});
  }
}

TEST_CASE("weights are rounded by channel, and their gradients pass", "[quantization]") {
  const at::Tensor weight = at::linspace(-1, 1, 24).view({4, 6}).clone().requires_grad_(true);
  WeightRounding rounding(ScaleSource::observer, weight, /*out_dim=*/0);
  materialized(rounding);
  const at::Tensor rounded = rounding(weight, {.rounds = true, .watches = true});
  CHECK(rounded.sub(weight).abs().max().item<double>() < 1.0 / 200);
  CHECK_FALSE(rounded.equal(weight));
  rounded.sum().backward();
  // A row's largest weight is a level beyond the last, if it is positive.
  CHECK(weight.grad().sum().item<double>() >= 24 - 4);
}

TEST_CASE("until a range has seen a hundred batches all of them count alike", "[quantization]") {
  ActivationRounding rounding(ScaleSource::observer, {.bits = 8});
  materialized(rounding);
  for (const double high : {1.0, 2.0, 6.0}) rounding(at::linspace(0, high, 10), {.rounds = false, .watches = true});
  CHECK(rounding.levels()->scale == Approx(3.0 / 255));
  for (int i = 0; i < 197; ++i) rounding(at::linspace(0, 3, 10), {.rounds = false, .watches = true});
  rounding(at::linspace(0, 103, 10), {.rounds = false, .watches = true});
  CHECK(rounding.levels()->scale == Approx(4.0 / 255));
}

TEST_CASE("rows of an embedding are rounded each by its own step, and their gradients pass", "[quantization]") {
  const at::Tensor rows = at::linspace(-3, 1, 60).view({2, 3, 10}).clone().requires_grad_(true);
  const at::Tensor rounded = rounded_rows(rows);
  const at::Tensor table = rows.detach().view({6, 10});
  CHECK(rounded.detach().view({6, 10}).allclose(dequantize(quantize_rows(table)), 1e-6, 1e-7));
  CHECK_FALSE(rounded.equal(rows));
  rounded.sum().backward();
  CHECK(rows.grad().sum().item<double>() == Approx(60));
}

TEST_CASE("convolutions before a sum are found", "[quantization]") {
  const std::set<std::string> names = layers_before_sums(resnet(), kImages);
  CHECK(names.size() == 11);  // eight blocks and three shortcuts
  CHECK(names.contains("layer1.0.bn2"));
  CHECK(names.contains("layer2.0.downsample.1"));
}

TEST_CASE("int8 gives what training for it saw", "[quantization]") {
  for (const ScaleSource step_size : {ScaleSource::observer, ScaleSource::learned}) {
    const std::unique_ptr<model::Model> model = model::build(resnet(), kImages);
    QatConfig qat;
    qat.scale = step_size;
    qat.start_step = 2;
    qat.freeze_observers_step = 4;
    QuantizedTraining training_of(*model, training(qat), layers_before_sums(resnet(), kImages));
    model::materialize(*model, at::kCPU, 3, /*channels_last=*/true);
    const at::Tensor images = some_images(8);
    for (std::int64_t step = 0; step < 4; ++step) {
      training_of.begin_step(step);
      model->forward(images).sum().backward();
    }
    const at::NoGradGuard no_grad;
    training_of.begin_step(4);
    model->set_training(false);
    const at::Tensor rounded = model->forward(images);
    TrainedLevelsByLayer levels = QuantizedTraining::take(*model);
    CHECK(levels.size() == 21 + 11);
    const double means = levels.at("fc").input->scale;
    const at::Tensor plain = model->forward(images);
    CHECK_FALSE(rounded.equal(plain));

    QuantizationRecipe recipe{
        .method = QuantizationMethod::qat, .backend = resolved(QuantizationBackend::auto_), .skip_modules = {}};
    recipe.activation_bits = activation_bits(recipe.backend);
    Quantization quantization(*model, recipe, images.narrow(0, 0, 1), std::move(levels));
    quantization.watch();
    model->forward(images);
    quantization.convert();
    quantization.finish();
    std::vector<double> scales;
    model->visit_buffers([&](const std::string& name, model::TensorDecl& decl) {
      if (name.ends_with("mean0.output_scale")) scales.push_back(decl.value.item<double>());
    });
    REQUIRE(scales.size() == 1);
    CHECK(scales[0] == Approx(means));  // not that of the pixels they are of
    const auto error = [&](const at::Tensor& value) {
      return value.sub(rounded).norm().item<double>() / rounded.norm().item<double>();
    };
    // Identities that go into sums are rounded in eight bits alone. Levels of seven bits are twice as far apart.
    CHECK(error(model->forward(images)) < (recipe.activation_bits == 8 ? 0.15 : 0.3));
  }
}

TEST_CASE("the range behind a BatchNorm moves on when its statistics rest", "[quantization][regression]") {
  const std::unique_ptr<model::Model> model = model::build(resnet(), kImages);
  QatConfig qat;
  qat.freeze_batch_norm_step = 1;
  QuantizedTraining training_of(*model, training(qat), layers_before_sums(resnet(), kImages));
  model::materialize(*model, at::kCPU, 3, /*channels_last=*/true);
  const auto count = [&](const std::string& wanted) {
    std::int64_t found = -1;
    model->visit_buffers([&](const std::string& name, model::TensorDecl& decl) {
      if (name == "layer1.0.bn2." + wanted) found = decl.value.item<std::int64_t>();
    });
    return found;
  };
  const at::NoGradGuard no_grad;
  for (std::int64_t step = 0; step < 3; ++step) {
    model->set_training(true);  // as after an evaluation
    training_of.begin_step(step);
    model->forward(some_images(2));
    CHECK(count("num_batches_tracked") == 1);
    CHECK(count("output_rounding.num_seen") == step + 1);
  }
}

TEST_CASE("a head that flattens its input has the levels of training, whatever calibration shows", "[quantization]") {
  model::ModelConfig config;
  config.network = model::NetworkConfig(model::MlpConfig{.hidden = {32}, .num_classes = 10});
  const std::unique_ptr<model::Model> model = model::build(config, kImages);
  QuantizedTraining training_of(*model, training({}), layers_before_sums(config, kImages));
  model::materialize(*model, at::kCPU, 3, /*channels_last=*/false);
  const at::Tensor images = some_images(8);
  training_of.begin_step(0);
  model->forward(images).sum().backward();
  const at::NoGradGuard no_grad;
  model->set_training(false);
  QuantizationRecipe recipe{
      .method = QuantizationMethod::qat, .backend = resolved(QuantizationBackend::auto_), .skip_modules = {}};
  recipe.activation_bits = activation_bits(recipe.backend);
  const TrainedLevelsByLayer levels = QuantizedTraining::take(*model);
  Quantization quantization(*model, recipe, images.narrow(0, 0, 1), levels);
  quantization.watch();
  model->forward(images.mul(3));
  quantization.convert();
  double scale = 0;
  model->visit_buffers([&](const std::string& name, model::TensorDecl& decl) {
    if (name == "head.input_scale") scale = decl.value.item<double>();
  });
  CHECK(scale == Approx(levels.at("head.linear").input->scale));
}

/// Of samples: what training saw in evaluation, and what int8 makes of it; the relative errors of the outputs, sorted.
at::Tensor errors_of_int8(const model::ModelConfig& config, const model::InputSpec& input, const at::Tensor& ids,
                          QuantizationBackend backend) {
  const std::unique_ptr<model::Model> model = model::build(config, input);
  QuantizationConfig eight_bits = training({});
  eight_bits.backend = backend;
  QuantizedTraining training_of(*model, eight_bits, {});
  model::materialize(*model, at::kCPU, 3, /*channels_last=*/false);
  training_of.begin_step(0);
  model->forward(ids).sum().backward();
  const at::NoGradGuard no_grad;
  model->set_training(false);
  const at::Tensor rounded = model->forward(ids);
  TrainedLevelsByLayer levels = QuantizedTraining::take(*model);
  QuantizationRecipe recipe{.method = QuantizationMethod::qat, .backend = resolved(backend), .skip_modules = {}};
  recipe.activation_bits = activation_bits(recipe.backend);
  Quantization quantization(*model, recipe, ids, std::move(levels));
  quantization.watch();
  model->forward(ids);
  quantization.convert();
  quantization.finish();
  const at::Tensor difference = model->forward(ids).sub(rounded);
  return std::get<0>(difference.norm(2, {1}).div(rounded.norm(2, {1})).sort());
}

TEST_CASE("int8 of a network for text gives what training for it saw, embeddings included", "[quantization]") {
  model::ModelConfig config;
  config.network = model::NetworkConfig(model::BertConfig{
      .hidden_size = 64, .num_layers = 2, .num_heads = 4, .intermediate_size = 128, .max_position_embeddings = 96});
  const model::InputSpec input{.shape = {96}, .num_classes = 5, .vocab_size = 300};
  const at::Tensor ids = at::arange(96 * 16).mul(37).remainder(300).view({16, 96});
  for (const QuantizationBackend backend : {QuantizationBackend::auto_, QuantizationBackend::x86}) {
    INFO(config::name_of(backend));
    const at::Tensor errors = errors_of_int8(config, input, ids, backend);
    // But for a value half way between two levels here and there, which then goes to the other one.
    CHECK(errors[10].item<double>() < 1e-5);
    CHECK(errors[15].item<double>() < 2e-2);
  }
}

TEST_CASE("only parts that training for eight bits adds are called so", "[quantization][regression]") {
  CHECK(is_rounding("fc.weight_rounding.scale"));
  CHECK(is_rounding("fc.input_rounding.low"));
  CHECK_FALSE(is_rounding("my_rounding.weight"));
}

TEST_CASE("names of layers that stay float in training must exist", "[quantization]") {
  const std::unique_ptr<model::Model> model = model::build(resnet(), kImages);
  QuantizationConfig config = training({});
  config.skip_modules = {"nothing"};
  CHECK_THROWS_AS(QuantizedTraining(*model, config, {}), core::Error);
}

}  // namespace trainctl::quantization::training_test
