#include "exporters/torchscript.h"

#include <ATen/ops/randn.h>
#include <catch2/catch.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/file.h"
#include "exporters/trace.h"
#include "support/exported_networks.h"
#include "support/python.h"
#include "support/temporary_directory.h"

namespace trainctl::exporters {
namespace {

using namespace testing;  // NOLINT
namespace fs = std::filesystem;

/// As Python scripts look for them: input0, input1, …
checkpoint::TensorMap numbered(const std::vector<at::Tensor>& inputs) {
  checkpoint::TensorMap tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors["input" + std::to_string(i)] = inputs[i];
  return tensors;
}

TEST_CASE("a traced network gives what the model gives, at other sizes", "[exporters]") {
  const TemporaryDirectory scratch;
  for (const ExportedNetwork& exported : exported_networks()) {
    INFO(exported.name);
    const auto model = ready(exported);
    const Signature signature = signature_of(exported.network, pretrained::model_info_of(*model, exported.input.shape));
    torch::jit::Module module = trace(*model, signature);
    follow_training_flag(module);
    const fs::path path = scratch / (exported.name + ".pt");
    write_torchscript(module, TorchScriptFlavour::full, {{"a.json", "{}"}}, path);
    const auto file = open_torchscript(path);
    CHECK(file->note("a.json") == "{}");
    CHECK(file->note("b.json") == "");
    for (const auto& inputs : batches_for(signature)) {
      const at::NoGradGuard no_grad;
      const at::Tensor expected = model->forward(model_input(signature, inputs));
      CHECK(relative_difference(file->run(inputs), expected) < 1e-5);
    }
  }
}

TEST_CASE("the mobile flavour runs in the lite interpreter, ours and Python's, and gives the same",
          "[exporters][reference]") {
  const TemporaryDirectory scratch;
  for (const ExportedNetwork& exported : exported_networks()) {
    INFO(exported.name);
    const auto model = ready(exported);
    const Signature signature = signature_of(exported.network, pretrained::model_info_of(*model, exported.input.shape));
    torch::jit::Module module = trace(*model, signature);
    const fs::path path = scratch / (exported.name + ".ptl");
    write_torchscript(module, TorchScriptFlavour::mobile, {{"a.json", "{}"}}, path);
    const auto file = open_torchscript(path);
    CHECK(file->note("a.json") == "{}");
    int number = 0;
    for (const auto& inputs : batches_for(signature)) {
      const at::NoGradGuard no_grad;
      const at::Tensor expected = model->forward(model_input(signature, inputs));
      CHECK(relative_difference(file->run(inputs), expected) < 1e-5);
      checkpoint::TensorMap tensors = numbered(inputs);
      tensors["output"] = expected;
      checkpoint::write_safetensors(scratch / (exported.name + "." + std::to_string(number++) + ".safetensors"),
                                    tensors, {}, core::Durability::process);
    }
  }
  run_reference("torchscript_mobile.py", {scratch.path().string()});
}

TEST_CASE("Python trains on with what is exported, at another batch size", "[exporters][reference]") {
  const TemporaryDirectory scratch;
  for (const ExportedNetwork& exported : exported_networks()) {
    const auto model = ready(exported);
    const Signature signature = signature_of(exported.network, pretrained::model_info_of(*model, exported.input.shape));
    torch::jit::Module module = trace(*model, signature);
    follow_training_flag(module);
    write_torchscript(module, TorchScriptFlavour::full, {}, scratch / (exported.name + ".pt"));
    const auto inputs =
        batches_for(signature)[2];  // BatchNorm of few samples is so steep that hardly a step is short enough
    checkpoint::TensorMap tensors = numbered(inputs);
    for (const model::NamedTensor& named : model::named_parameters(*model))
      tensors["parameter." + named.name] = named.tensor;
    const at::NoGradGuard no_grad;
    tensors["output"] = model->forward(model_input(signature, inputs));
    checkpoint::write_safetensors(scratch / (exported.name + ".safetensors"), tensors, {}, core::Durability::process);
  }
  run_reference("torchscript_training.py", {scratch.path().string()});
}

TEST_CASE("damaged and foreign files are refused with a reason", "[exporters]") {
  const TemporaryDirectory scratch;
  const ExportedNetwork exported = exported_networks().front();
  const auto model = ready(exported);
  const Signature signature = signature_of(exported.network, pretrained::model_info_of(*model, exported.input.shape));
  torch::jit::Module module = trace(*model, signature);
  const fs::path path = scratch / "whole.pt";
  write_torchscript(module, TorchScriptFlavour::full, {}, path);
  const std::string bytes = core::read_file(path);
  for (const double part : {0.0, 0.01, 0.3, 0.7, 0.99})
    CHECK_THROWS_AS(open_torchscript(scratch.write(
                        "cut.pt", bytes.substr(0, static_cast<std::size_t>(part * static_cast<double>(bytes.size()))))),
                    core::Error);
  std::size_t refused = 0;
  for (std::size_t place = 40; place < bytes.size(); place += bytes.size() / 50) {
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
    try {
      open_torchscript(scratch.write("damaged.pt", damaged));
    } catch (const core::Error&) {
      ++refused;
    }
  }
  CHECK(refused > 25);  // the rest lies in padding
  CHECK_THROWS_WITH(open_torchscript(scratch.write("text.pt", "no archive")), Catch::Contains("no TorchScript file"));
  CHECK_THROWS_AS(open_torchscript(scratch / "absent.pt"), core::Error);
}

}  // namespace
}  // namespace trainctl::exporters
