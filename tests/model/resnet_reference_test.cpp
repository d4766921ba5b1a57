// Our ResNets against torchvision's: names, shapes, outputs, gradients and buffers, with weights going both ways.
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/model_support.h"
#include "support/reference.h"

namespace trainctl::model::resnet_reference_test {
namespace {

using testing::TensorMap;

const InputSpec kImages64{.shape = {3, 64, 64}, .num_classes = 1000};
const std::string kScript = "torchvision_resnet.py";

/// Parameters and buffers in the order of PyTorch's state_dict: each layer's own, parameters first.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> state_dict(Model& model) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  const auto remember = [&](const std::string& name, TensorDecl& decl) { shapes[name] = decl.value.sizes().vec(); };
  model.visit_parameters(remember);
  model.visit_buffers(remember);
  return {shapes.begin(), shapes.end()};
}

void check_shapes(const NetworkConfig& network, const TensorMap& reference) {
  const std::string prefix = std::string(network.kind()) + "/";
  const auto model = build(testing::with_network(network), kImages64);
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> expected;
  std::map<std::int64_t, std::string> order;
  for (const auto& [name, place_and_shape] : reference) {
    if (!name.starts_with(prefix)) continue;
    const auto* values = place_and_shape.const_data_ptr<std::int64_t>();
    const std::vector<std::int64_t> shape(values + 1, values + place_and_shape.numel());
    expected.emplace_back(name.substr(prefix.size()), shape);
    const bool is_parameter = name.ends_with(".weight") || name.ends_with(".bias");
    if (is_parameter) order[values[0]] = expected.back().first;
  }
  CHECK(state_dict(*model) == expected);

  std::vector<std::string> parameters;
  for (const auto& [place, name] : order) parameters.push_back(name);
  std::vector<std::string> ours;
  for (const NamedTensor& named : named_parameters(*model)) ours.push_back(named.name);
  CHECK(ours == parameters);
}

TEST_CASE("names, shapes and order of all resnets are torchvision's", "[model]") {
  const auto reference = testing::reference(kScript, "shapes");
  check_shapes(ResNetConfig<18>{}, reference);
  check_shapes(ResNetConfig<34>{}, reference);
  check_shapes(ResNetConfig<50>{}, reference);
  check_shapes(ResNetConfig<101>{}, reference);
  check_shapes(ResNetConfig<152>{}, reference);
}

enum class Layout { contiguous, channels_last };

/// Relative to the largest magnitude of each tensor. Kernels are the same, so contiguous results are nearly bit-equal.
struct Tolerance {
  double output;
  double gradient;
};

template <int Depth>
void check_against_torchvision(const TensorMap& reference, Layout layout, Tolerance tolerance) {
  const auto model = build(testing::with_network(ResNetConfig<Depth>{}), kImages64);
  materialize(*model, at::kCPU, 1, layout == Layout::channels_last);
  const at::Tensor& given = reference.at("input");
  if (given.scalar_type() == at::kDouble) testing::make_double(*model);
  const auto load = [&](const std::string& name, TensorDecl& decl) {
    decl.value.detach().copy_(reference.at("weights/" + name));
  };
  model->visit_parameters(load);
  model->visit_buffers(load);
  const at::Tensor images =
      given.contiguous(layout == Layout::channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);

  model->set_training(false);
  {
    const c10::NoGradGuard no_grad;
    CHECK(testing::difference(model->forward(images), reference.at("eval_output")) <= tolerance.output);
  }
  model->set_training(true);
  const at::Tensor output = model->forward(images);
  CHECK(testing::difference(output.detach(), reference.at("train_output")) <= tolerance.output);
  output.mul(reference.at("cotangent")).sum().backward();

  // Where our own kernels run, both sides round in their own ways. Then what counts is the gradient in double
  // precision, from which stock PyTorch's is up to 1.4e-5 away.
  const bool by_own_kernels = layout == Layout::channels_last && given.scalar_type() == at::kFloat;
  double worst = 0;
  model->visit_parameters([&](const std::string& name, TensorDecl& decl) {
    const at::Tensor& theirs = reference.at("gradients/" + name);
    const at::Tensor expected = by_own_kernels ? reference.at("exact_gradients/" + name) : theirs;
    const double off = testing::difference(decl.value.grad().to(expected.scalar_type()), expected);
    worst = std::max(worst, off);
    INFO(name);
    const double of_floats = by_own_kernels ? testing::difference(theirs.to(at::kDouble), expected) : 0;
    CHECK(off <= std::max(tolerance.gradient, 2 * of_floats));
    CHECK(off <= 2 * tolerance.gradient);
  });
  model->visit_buffers([&](const std::string& name, TensorDecl& decl) {
    INFO(name);
    CHECK(testing::difference(decl.value.to(at::kDouble), reference.at("buffers/" + name).to(at::kDouble)) <=
          tolerance.output);
  });
  std::fprintf(stderr, "resnet%d, largest relative difference of a gradient: %.2e\n", Depth, worst);
}

TEST_CASE("resnet18's outputs and gradients are torchvision's", "[model][reference]") {
  // Layout against the same layout: their kernels add in different orders.
  for (const auto& [part, layout] :
       {std::pair{"resnet18", Layout::contiguous}, std::pair{"resnet18-channels-last", Layout::channels_last}}) {
    const auto reference = testing::reference(kScript, part);
    check_against_torchvision<18>(reference, layout, {1e-5, 1e-5});
  }
}

TEST_CASE("resnet50's outputs and gradients are torchvision's", "[model][reference]") {
  const auto reference = testing::reference(kScript, "resnet50");
  check_against_torchvision<50>(reference, Layout::contiguous, {1e-5, 1e-5});
}

TEST_CASE("resnet18's outputs and gradients are torchvision's in double precision", "[model][reference]") {
  const auto reference = testing::reference(kScript, "resnet18-double");
  check_against_torchvision<18>(reference, Layout::contiguous, {1e-12, 1e-11});
  check_against_torchvision<18>(reference, Layout::channels_last, {1e-12, 1e-11});
}

/// Float and int64 tensors.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor values = tensor.contiguous();
    const std::size_t begin = data.size();
    data.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
    header[name] = {{"dtype", values.scalar_type() == at::kLong ? "I64" : "F32"},
                    {"shape", values.sizes().vec()},
                    {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof length) << text << data;
}

TEST_CASE("torchvision loads our resnet18 strictly and agrees with its outputs", "[model]") {
  const auto model = testing::ready_model(ResNetConfig<18>{}, kImages64);
  TensorMap tensors;
  const at::Tensor images = tensors["input"] = at::randn({4, 3, 64, 64});
  const auto save = [&](const std::string& name, TensorDecl& decl) {
    tensors["weights/" + name] = decl.value.detach().clone();
  };
  model->visit_parameters(save);
  model->visit_buffers(save);
  {
    const c10::NoGradGuard no_grad;
    model->set_training(false);
    tensors["eval_output"] = model->forward(images);
    model->set_training(true);
    tensors["train_output"] = model->forward(images);
  }
  const testing::TemporaryDirectory directory;
  write_safetensors(directory / "ours.safetensors", tensors);
  testing::run_reference(kScript, {"check", (directory / "ours.safetensors").string()});
}

}  // namespace
}  // namespace trainctl::model::resnet_reference_test
