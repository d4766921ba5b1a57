"""A network for images: one hidden layer whose units have gates."""
import re

from addition import Addition, After, Before, Forgotten, New, Run

CONFIG = """// `model: {kind: gated_mlp}`. Part of model/config.h.
#pragma once

#include <cstdint>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

/// One hidden layer; each unit has a gate.
struct GatedMlpConfig {
  static constexpr std::string_view kind = "gated_mlp";
  std::int64_t hidden_size = 32;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&GatedMlpConfig::hidden_size>("Units of the hidden layer; even.", config::at_least(2)),
        field<&GatedMlpConfig::num_classes>("Outputs; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::images,
                                      .outputs = Outputs{Output::per_sample},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "answer.linear.weight",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const {
    return {.num_classes = num_classes.value, .vocab_size = std::nullopt, .max_position_embeddings = std::nullopt};
  }
  BrokenRules broken_rules(const Surroundings&) const {
    if (hidden_size % 2 == 0) return {};
    return {{{"model.hidden_size", "model.kind"}, "expected an even number, got " + std::to_string(hidden_size)}};
  }
  static GatedMlpConfig starter() { return {.hidden_size = 64}; }
};

}  // namespace trainctl::model
"""

SOURCE = """#include <ATen/ops/sigmoid.h>

#include "model/layers/linear.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

class GatedLayer final : public UnaryLayer {
 public:
  GatedLayer(std::int64_t in_features, std::int64_t out_features)
      : value_(child<Linear>("value", in_features, out_features)),
        gate_(child<Linear>("gate", in_features, out_features)) {}
  at::Tensor compute(const at::Tensor& input) override {
    const at::Tensor flat = input.flatten(1);
    return value_.forward(flat).mul(at::sigmoid(gate_.forward(flat)));
  }
  double flops() const { return value_.flops() + gate_.flops(); }

 private:
  Linear& value_;
  Linear& gate_;
};

class AnswerLayer final : public UnaryLayer {
 public:
  AnswerLayer(std::int64_t in_features, std::int64_t num_classes)
      : linear_(child<Linear>("linear", in_features, num_classes)) {}
  at::Tensor compute(const at::Tensor& input) override { return linear_.forward(input); }
  double flops() const { return linear_.flops(); }

 private:
  Linear& linear_;
};

class GatedMlp final : public Model {
 public:
  GatedMlp(const GatedMlpConfig& config, const InputSpec& input) {
    auto& hidden = child<GatedLayer>("hidden", image_shape(input, config.kind).size(), config.hidden_size);
    auto& answer = child<AnswerLayer>("answer", config.hidden_size, num_outputs(config.num_classes, input));
    add_block("hidden", hidden);
    add_block("answer", answer);
    flops_ = hidden.flops() + answer.flops();
  }
  double flops_per_sample() const override { return flops_; }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const GatedMlpConfig& config, const InputSpec& input) {
  return std::make_unique<GatedMlp>(config, input);
}

}  // namespace trainctl::model
"""

TEST = """#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>

#include "model/model.h"
#include "model_support.h"

using namespace trainctl;
using namespace trainctl::testing;

TEST_CASE("a gated network gives a row of classes", "[model]") {
  const model::InputSpec images{.shape = {3, 4, 4}, .num_classes = 5};
  const auto network = ready_model(model::GatedMlpConfig{.hidden_size = 8}, images);
  CHECK(network->forward(at::ones({2, 3, 4, 4})).sizes() == at::IntArrayRef{2, 5});
  CHECK(model::num_parameters(*network) == 2 * (48 * 8 + 8) + 8 * 5 + 5);
}
"""

EXPERIMENT = """name: gated
dataset: {kind: synthetic_images}
model: {kind: gated_mlp, hidden_size: 7}
train: {steps: 2}
"""

HEADER = "src/model/gated_mlp_config.h"
SETS = "src/model/config.h"


TRAITS = [*re.findall(r"\.\w+ = [^\n]*,\n {38}", CONFIG), ",\n" + 38 * " " + ".is_in_timm = false"]
IN_TRANSFORMERS = ('.transformers_type = ""', '.transformers_type = "gated"')


def without(text, instead, says):
    """The config's header lacks something that it must state."""
    return Forgotten((HEADER, text, instead), says=[says], source=SETS)


CASE = Addition(
    section="Adding a model",
    name="gated_mlp",
    steps={
        HEADER: [New(CONFIG)],
        SETS: [After('#include "model/bert_config.h"\n', '#include "model/gated_mlp_config.h"\n'),
               Before(", LayersConfig, TorchScriptConfig>;", ", GatedMlpConfig")],
        "src/model/networks.h": [Before("template <int Depth>\n", "std::unique_ptr<Model> build(const GatedMlpConfig& config, const InputSpec& input);\n")],
        "src/model/gated_mlp.cpp": [New(SOURCE)],
        "tests/model/gated_mlp_test.cpp": [New(TEST)],
    },
    files={"experiment.yaml": EXPERIMENT},
    programs={
        "trainctl": [
            Run(["config", "schema"], says=['"gated_mlp"', "Units of the hidden layer; even."]),
            Run(["config", "reference"], says=["gated_mlp"]),
            Run(["config", "new", "--model", "gated_mlp"], says=["kind: gated_mlp", "hidden_size: 64"]),
            Run(["check", "--file-only", "experiment.yaml"], code=2, says=["3:39: model.hidden_size: expected an even number, got 7"]),
            Run(["check", "--file-only", "experiment.yaml", "--set", "model.hidden_size=8"], says=["ok"]),
            Run(["check", "--file-only", "experiment.yaml", "--set", "model.kind=gated_mpl"], code=2, says=["did you mean 'gated_mlp'?"]),
        ],
        "test_model": [Run([], says=["All tests passed"])],
    },
    forgotten=[
        without("ModelTraits traits{", "ModelTraits facts{", "`static constexpr ModelTraits traits{...}`"),
        without("OwnSizes sizes()", "OwnSizes own_sizes()", "`OwnSizes sizes() const`"),
        without("broken_rules(", "rules(", "`BrokenRules broken_rules(const Surroundings&) const`"),
        without("GatedMlpConfig starter()", "GatedMlpConfig small()", "`static Network starter()`"),
        without('.embedding = ""', '.embedding = "words.weight"', "a network for tokens, and no other, has an embedding"),
        without(".num_classes = num_classes.value, ", "", "gated_mlp_config.h"),
        *[without(trait, "", "gated_mlp_config.h") for trait in TRAITS],
        Forgotten((SETS, ", GatedMlpConfig", ""), says=["GatedMlpConfig"], source="tests/model/gated_mlp_test.cpp"),
        Forgotten(("src/model/networks.h", "build(const GatedMlpConfig&", "construct(const GatedMlpConfig&"),
                  says=["build(const trainctl::model::GatedMlpConfig&"], source="src/model/model.cpp"),
        Forgotten(("src/model/gated_mlp.cpp", "", ""), says=["undefined"], program="test_model"),
        # A network that others publish: the places where its file names and keys stand.
        *[Forgotten((HEADER, *IN_TRANSFORMERS), says=["GatedMlpConfig", *functions], source=f"src/pretrained/{source}.cpp") for source, functions in [
            ("hugging_face_config", ["complete(const trainctl", "image_processor(const trainctl"]),
            ("hugging_face_fields", ["structure(const trainctl"]),
            ("transformers_names", ["to_transformers(const trainctl", "from_transformers(const trainctl"])]],
        Forgotten((HEADER, ".is_in_timm = false", ".is_in_timm = true"), says=["GatedMlpConfig", "timm_model(const trainctl"],
                  source="src/pretrained/timm_config.cpp"),
    ],
    closed_sets=[("src/model/config.h", "OwnNetworkConfig", "model"), ("src/task/config.h", "OwnTaskConfig", "task")],
)
