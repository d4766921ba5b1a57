// What muP, scripted networks and lists of layers can't be combined with.
#include <catch2/catch.hpp>

#include "problem_lines.h"

namespace trainctl::experiment::model_rules_test {
namespace {

std::string problems_of(const std::string& model, const std::string& optimizer) {
  return problem_lines("name: x\ndataset: synthetic_images\nmodel: " + model + "\noptimizer: " + optimizer +
                       "\ntrain: {steps: 10}\n");
}

TEST_CASE("muP is for networks with a width, which the base divides", "[experiment]") {
  CHECK(problems_of("{kind: mlp, hidden: [64, 96], mup: {base_width: 16}}", "adamw").empty());
  CHECK(problems_of("{kind: mlp, hidden: [64, 96], mup: {base_width: 3}}", "adamw") ==
        "3:56: model.mup.base_width: model.hidden[1] is no whole number at width 3: sizes are in proportion to the "
        "width, which is 64, and heads keep theirs\n");
  CHECK(problems_of("{kind: resnet18, mup: {base_width: 16}}", "adamw") ==
        "3:30: model.mup: resnet18 has no key for its width, by which muP scales; expected a network with "
        "hidden_size, hidden or widen_factor\n");
  CHECK(problems_of("{kind: mlp, mup: {base_width: 0}}", "adamw").find("base_width") != std::string::npos);
}

TEST_CASE("muP is for update rules whose updates have the learning rate's size", "[experiment]") {
  CHECK(problems_of("{kind: mlp, mup: {base_width: 64}}", "lion").empty());
  CHECK(problems_of("{kind: mlp, mup: {base_width: 64}}", "sgd")
            .find("model.mup: muP's learning rates are for updates that don't depend on the gradient's size") !=
        std::string::npos);
}

TEST_CASE("keys that work on layers are refused for a scripted network", "[experiment]") {
  const auto problems = [](const std::string& more) {
    return problem_lines(
        "name: x\ndataset: synthetic_images\nmodel: {kind: torchscript, path: net.pt}\ntrain: {steps: 1}\n" + more);
  };
  CHECK(problems("amp: bf16\n").empty());
  for (const std::string one :
       {"distributed: {kind: ddp, sync_batch_norm: true}\n", "accumulation: {steps: 2, batch_norm_update: per_step}\n",
        "quantization: qat\n", "amp: {mode: fp8}\n", "activation_checkpointing: full\n",
        "activation_checkpointing: {storage_dtype: bf16}\n", "optimizer: {layer_decay: 0.5}\n"})
    CHECK(problems(one).find("works on layers that trainctl builds, and a scripted network has its own") !=
          std::string::npos);
}

TEST_CASE("a list has layers, and no more than a network may have", "[experiment]") {
  const auto problems = [](const std::string& layers) {
    return problem_lines("name: x\ndataset: synthetic_images\nmodel: {kind: layers, layers: " + layers +
                         "}\ntrain: {steps: 1}\n");
  };
  CHECK(problems("[]").find("model.layers") != std::string::npos);
  const std::string nested =
      "[{kind: repeat, times: 1000, layers: [{kind: repeat, times: 1000, layers: [{kind: repeat, times: 1000, "
      "layers: [relu]}]}]}, flatten, linear]";
  CHECK(problems(nested).find("more than 100000 layers") != std::string::npos);
  CHECK(problems("[{kind: repeat, times: 1000, layers: [relu]}, flatten, linear]").empty());
}

}  // namespace
}  // namespace trainctl::experiment::model_rules_test
