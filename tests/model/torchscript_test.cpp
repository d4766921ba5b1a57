// Scripted modules as networks, against the Python modules that they are of.
#include <ATen/ops/randn.h>

#include <filesystem>
#include <fstream>

#include "core/file.h"
#include "model/recorded_model.h"

namespace trainctl::model::torchscript_test {
namespace {

const std::string kScript = "torchscript_networks.py";

struct Scripted {
  std::string name;
  InputSpec input;
};

TorchScriptConfig config_of(const std::filesystem::path& file, bool takes_tokens) {
  return {.path = file.string(), .input = takes_tokens ? ScriptInput::tokens : ScriptInput::numbers};
}

std::map<std::string, at::Tensor> state_of(Model& model) {
  std::map<std::string, at::Tensor> state;
  const auto visit = [&](const std::string& name, TensorDecl& decl) { state[name] = decl.value.detach(); };
  model.visit_parameters(visit);
  model.visit_buffers(visit);
  return state;
}

TEST_CASE("scripted modules train as in Python, and their weights go back by load_state_dict", "[model][reference]") {
  const InputSpec images{.shape = {3, 64, 64}, .num_classes = 10};
  const testing::TemporaryDirectory directory;
  testing::run_reference(kScript, {"write", directory.path().string()});
  const testing::TensorMap all = testing::read_reference(directory / "recorded.safetensors");
  testing::TensorMap ours;
  for (const Scripted& one : {Scripted{"mobilenet_v3", images}, Scripted{"convnext", images},
                              Scripted{"tags", {.shape = {12}, .num_classes = 5, .vocab_size = 50}}}) {
    INFO(one.name);
    const testing::TensorMap recorded = testing::part_of(all, one.name);
    const auto model =
        testing::ready_model(config_of(directory / (one.name + ".pt"), one.input.vocab_size > 0), one.input);
    for (const NamedTensor& named : named_parameters(*model))  // those of the file, before any are loaded
      CHECK(testing::difference(named.tensor.detach().to(at::kDouble), recorded.at("weights/" + named.name)) <= 1e-7);
    testing::make_double(*model);
    testing::check_against_recorded(*model, recorded, {testing::plain_loss});
    model->set_training(false);
    const c10::NoGradGuard no_grad;
    for (const auto& [name, value] : state_of(*model)) ours[one.name + "/weights/" + name] = value.clone();
    for (const char* name : {"images", "ids", "key_mask"})
      if (recorded.contains(name)) ours[one.name + "/" + name] = recorded.at(name);
    ours[one.name + "/output"] = model->forward(testing::recorded_input(recorded));
  }
  testing::write_safetensors(directory / "ours.safetensors", ours);
  testing::run_reference(kScript, {"check", directory.path().string()});

  const at::Tensor rows = at::randn({64, 4});
  for (const auto& [file, norm_trains] : {std::pair("frozen_norm.pt", false), {"evaluation_but_dropout.pt", true}}) {
    INFO(file);
    const auto model = testing::ready_model(config_of(directory / file, false), {.shape = {4}, .num_classes = 4});
    const at::Tensor running_mean = state_of(*model).at("norm.running_mean");
    for (int round = 0; round < 2; ++round) {  // modes don't depend on what ran before
      model->set_training(false);
      CHECK(model->forward(rows).equal(model->forward(rows)));
      model->set_training(true);
      const at::Tensor before = running_mean.clone();
      CHECK(!model->forward(rows).equal(model->forward(rows)));
      CHECK(!running_mean.equal(before) == norm_trains);
    }
  }

  const auto refuse = [&](const std::string& file, const std::string& why) {
    const TorchScriptConfig config = config_of(directory / file, false);
    CHECK_THROWS_WITH(build(testing::with_network(config), {.shape = {4}, .num_classes = 4}), Catch::Contains(why));
  };
  const auto other =
      testing::ready_model(config_of(directory / "convnext.pt", false), {.shape = {3, 64, 64}, .num_classes = 4});
  CHECK_THROWS_WITH(other->forward(at::zeros({2, 3, 64, 64})),
                    Catch::Contains("gives [2, 10] for a batch of 2; expected 4 outputs in the last dim"));
  CHECK_THROWS_WITH(other->forward(at::zeros({2, 1, 64, 64})), Catch::Contains("convnext.pt failed: Given groups=1"));
  const auto check = [&](const std::string& file, const InputSpec& input) {
    check_network_file(testing::with_network(config_of(directory / file, input.vocab_size > 0)).network, input);
  };
  check("convnext.pt", images);
  check("tags.pt", {.shape = {12}, .num_classes = 5, .vocab_size = 50});
  CHECK_THROWS_WITH(check("convnext.pt", {.shape = {1, 64, 64}, .num_classes = 10}),
                    Catch::Contains("convnext.pt failed: Given groups=1"));
  CHECK_THROWS_WITH(check("convnext.pt", {.shape = {3, 64, 64}, .num_classes = 4}),
                    Catch::Contains("expected 4 outputs in the last dim"));
  std::ofstream(directory / "text.pt") << "no archive";
  refuse("traced.pt", "was fixed when the module was traced");
  refuse("frozen.pt", "has no parameters to train");
  for (const std::string kind : {"number", "list", "tensor"})
    refuse("counts_in_" + kind + ".pt", "forward() changes the attribute `state`");
  const auto counter =
      testing::ready_model(config_of(directory / "counts_in_buffer.pt", false), {.shape = {4}, .num_classes = 4});
  for (const double count : {1, 2}) {
    counter->forward(rows);
    for (const char* name : {"state", "changed"}) CHECK(state_of(*counter).at(name).item<double>() == count);
  }
  for (const std::string kind : {"tuple", "dict", "list", "view", "parameter"})
    refuse("keeps_in_" + kind + ".pt", "shares memory with `");
  refuse("complex.pt", "`turn` is complex");
  refuse("sparse.pt", "`turn` is sparse");
  for (const std::string file : {"other_type.pt", "other_shape.pt"})
    CHECK_THROWS_WITH(check(file, {.shape = {4}, .num_classes = 4}),
                      Catch::Contains("the buffer `state` another shape or type"));
  const auto choices =
      testing::ready_model(config_of(directory / "choices.pt", false), {.shape = {4}, .num_classes = 4});
  CHECK(state_of(*choices).at("choice").scalar_type() == at::kLong);
  const testing::TensorMap chosen = testing::part_of(all, "choices");
  CHECK(testing::difference(choices->forward(chosen.at("rows").to(at::kFloat)).to(at::kDouble), chosen.at("output")) <=
        1e-5);
  refuse("maps_file.pt", "is refused: it calls aten::from_file");
  refuse("interface_maps_file.pt", "is refused: it calls aten::from_file");
  std::string weights = core::read_file(directory / "mobilenet_v3.pt");
  weights[weights.size() / 2] ^= 1;
  std::ofstream(directory / "damaged.pt") << weights;
  refuse("damaged.pt", "another checksum than in the directory");
  refuse("exported.pt2", "is no TorchScript module");
  refuse("weights.pt", "is no TorchScript module");
  refuse("text.pt", "is no TorchScript module");
  refuse("missing.pt", "there is no file");
}

}  // namespace
}  // namespace trainctl::model::torchscript_test
