// Adapters in peft's layout: logits as peft computes them of our files, and ours of peft's.
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/file.h"
#include "model/lora.h"
#include "pretrained/adapter_file.h"
#include "pretrained/export_adapters.h"
#include "support/published_networks.h"
#include "support/temporary_directory.h"
#include "train/run/initial_weights.h"

namespace trainctl::train {
namespace {

using namespace testing;  // NOLINT
namespace fs = std::filesystem;

constexpr double kMostOff = 1e-6;  // of the largest logit, in double precision

/// A network of published_networks() with adapters, as tests/reference/peft_adapters.py has it.
struct AdapterCase {
  std::string name;
  std::vector<std::string> target_modules;
  std::int64_t rank = 4;
  double scale = 1.5;
};

/// A matrix that is three there has three of their ranks.
std::vector<AdapterCase> adapter_cases() {
  const std::vector<std::string> llama = {"q_proj", "v_proj", "down_proj"};
  return {{"bert_mlm", {"query", "value", "intermediate.dense"}},
          {"bert_classifier", {"query", "value"}},
          {"gpt2", {"c_attn", "c_proj"}, 4, 3},
          {"llama_tied", llama},
          {"qwen3", llama},
          {"gemma2", llama},
          {"phi3", {"q_proj", "k_proj", "v_proj", "down_proj", "gate_proj", "up_proj"}},
          {"vit", {"qkv", "mlp.fc2"}, 12},
          {"deit", {"qkv", "attn.proj"}, 12},
          {"roberta_classifier", {"query"}},
          {"distilbert_classifier", {"query", "*[0-9].output.dense"}},
          {"electra_mlm", {"key", "value"}}};
}

PublishedNetwork adapted_network(const std::string& name) {
  for (PublishedNetwork& published : published_networks())
    if (published.name == name) return published;
  throw std::logic_error("no network " + name);
}

model::ModelConfig adapted_config(const AdapterCase& one) {
  return {.network = adapted_network(one.name).network,
          .lora = model::LoraConfig{.rank = one.rank,
                                    .alpha = one.scale * static_cast<double>(one.rank),
                                    .dropout = 0.1,
                                    .target_modules = one.target_modules}};
}

std::unique_ptr<model::Model> built_adapted(const model::ModelConfig& config, const model::InputSpec& input) {
  std::unique_ptr<model::Model> model = model::build(config, input);
  model::materialize(*model, at::kCPU, 1, /*channels_last=*/false);
  model->set_training(false);
  return model;
}

std::string load_adapted(model::Model& model, const model::ModelConfig& config, const model::InputSpec& input) {
  std::vector<tracking::Notice> notices;
  load_initial_weights(model, config, {input}, notices);
  REQUIRE(notices.size() == 1);
  return notices[0].text;
}

at::Tensor double_logits(model::Model& model, const at::Tensor& inputs) {
  const at::NoGradGuard no_grad;
  model.visit_parameters([](const std::string&, model::TensorDecl& decl) {
    decl.value = decl.value.detach().to(at::kDouble).requires_grad_(decl.trainable);
  });
  return logits_of(model, inputs.is_floating_point() ? inputs.to(at::kDouble) : inputs);
}

void fill_adapted(model::Model& model, bool trainable_alone) {
  const at::NoGradGuard no_grad;
  for (const model::NamedTensor& named : model::named_parameters(model))
    if (!trainable_alone || named.tensor.requires_grad()) named.tensor.copy_(at::randn(named.tensor.sizes()).mul(0.3));
}

at::Tensor adapter_inputs(const PublishedNetwork& published) {
  std::vector<std::int64_t> shape = published.input.shape;
  shape.insert(shape.begin(), 2);
  return shape.size() == 4 ? at::randn(shape) : at::randint(2, 61, {2, 11}, at::kLong);
}

/// Writes a base, and returns a run's network that began with it and trained its adapters.
std::unique_ptr<model::Model> trained_on_base(model::ModelConfig& config, const PublishedNetwork& published,
                                              const fs::path& directory) {
  const auto base = built_adapted({.network = config.network}, published.input);
  fill_adapted(*base, /*trainable_alone=*/false);
  pretrained::export_weights(*base, config.network, pretrained::model_info_of(*base, published.input.shape),
                             {.directory = directory});
  config.init_from = directory.string();
  auto model = built_adapted(config, published.input);
  load_adapted(*model, config, published.input);
  fill_adapted(*model, /*trainable_alone=*/true);
  return model;
}

/// Writes a base, and the adapters of a run that began with it, with inputs and logits for peft to compare.
void export_with_reference(const AdapterCase& one, const fs::path& directory) {
  const PublishedNetwork published = adapted_network(one.name);
  model::ModelConfig config = adapted_config(one);
  const auto model = trained_on_base(config, published, directory / "base");
  const pretrained::ExportedAdapters exported =
      pretrained::export_adapters(*model, config, pretrained::model_info_of(*model, published.input.shape),
                                  {.directory = directory / "adapter", .base = directory / "base"});
  CHECK(exported.base == directory / "base");
  CHECK(exported.files.size() == 2);

  const at::Tensor inputs = adapter_inputs(published);
  model::ModelConfig read = pretrained::with_adapters_of(config, directory / "adapter");
  const auto again = built_adapted(read, published.input);
  load_adapted(*again, read, published.input);
  const at::Tensor logits = double_logits(*model, inputs);
  checkpoint::write_safetensors(directory / "reference.safetensors", {{"inputs", inputs}, {"logits", logits}}, {},
                                core::Durability::process);
  CHECK(relative_difference(double_logits(*again, inputs), logits) <= kMostOff);
}

}  // namespace

TEST_CASE("peft loads the adapters that are exported, without a warning and with the same logits",
          "[train][reference]") {
  const TemporaryDirectory scratch;
  for (const AdapterCase& one : adapter_cases()) {
    INFO(one.name);
    export_with_reference(one, scratch / one.name);
  }
  run_reference("peft_adapters.py", {"load", scratch.path().string()});
}

TEST_CASE("adapters of peft give its logits here, apart and merged", "[train][reference]") {
  const TemporaryDirectory scratch;
  run_reference("peft_adapters.py", {"save", scratch.path().string()});
  for (const AdapterCase& one : adapter_cases()) {
    INFO(one.name);
    const PublishedNetwork published = adapted_network(one.name);
    model::ModelConfig config = adapted_config(one);
    config.init_from = (scratch / one.name / "base").string();
    config.lora->init_from = (scratch / one.name / "adapter").string();
    config.init_policy = model::InitPolicy::strict;
    const auto model = built_adapted(config, published.input);
    const std::string notice = load_adapted(*model, config, published.input);
    CHECK_THAT(notice, Catch::Contains("with adapters from") && !Catch::Contains("newly"));
    const auto reference = checkpoint::read_safetensors(scratch / one.name / "reference.safetensors");
    const at::Tensor apart = double_logits(*model, reference.at("inputs"));
    CHECK(relative_difference(apart, reference.at("logits")) <= kMostOff);
    model::merge_adapters(*model);
    CHECK(relative_difference(double_logits(*model, reference.at("inputs")), reference.at("logits")) <= kMostOff);
  }
}

TEST_CASE("a run without a published base writes one beside its adapters", "[train]") {
  const TemporaryDirectory scratch;
  const AdapterCase one{"gpt2", {"c_attn"}};
  const PublishedNetwork published = adapted_network(one.name);
  const model::ModelConfig config = adapted_config(one);
  const auto model = built_adapted(config, published.input);
  fill_adapted(*model, /*trainable_alone=*/false);
  const pretrained::ModelInfo facts = pretrained::model_info_of(*model, published.input.shape);
  const auto exported = pretrained::export_adapters(*model, config, facts, {.directory = scratch / "out"});
  CHECK(exported.base == scratch / "out" / "base_model");
  const model::ModelConfig read = pretrained::with_adapters_of(config, scratch / "out");
  const auto again = built_adapted(read, published.input);
  load_adapted(*again, read, published.input);
  const at::Tensor inputs = adapter_inputs(published);
  CHECK(double_logits(*again, inputs).equal(double_logits(*model, inputs)));
}

namespace {

/// Returns the error of loading adapters of gpt2 whose adapter_config.json is changed.
std::string adapter_failure(const nlohmann::json& changes, const AdapterCase& wanted) {
  const TemporaryDirectory scratch;
  const AdapterCase written{"gpt2", {"c_attn"}, 4, 1.5};
  const PublishedNetwork published = adapted_network("gpt2");
  model::ModelConfig config = adapted_config(written);
  const auto model = built_adapted(config, published.input);
  pretrained::export_adapters(*model, config, pretrained::model_info_of(*model, published.input.shape),
                              {.directory = scratch.path()});
  auto json = nlohmann::json::parse(core::read_file(scratch / "adapter_config.json"));
  if (!changes.is_null()) json.update(changes);
  core::write_file_atomically(scratch / "adapter_config.json", json.dump());
  config = adapted_config(wanted);
  config.init_from = (scratch / "base_model").string();
  config.lora->init_from = scratch.path().string();
  try {
    load_adapted(*built_adapted(config, published.input), config, published.input);
  } catch (const core::Error& error) {
    return error.text();
  }
  return "";
}

}  // namespace

TEST_CASE("adapters that don't fit are refused with what differs", "[train]") {
  using Catch::Contains;
  const AdapterCase same{"gpt2", {"c_attn"}};
  CHECK(adapter_failure({}, same).empty());
  CHECK_THAT(adapter_failure({}, {"gpt2", {"c_attn"}, 8, 1.5}),
             Contains("attn.c_attn.lora_A.weight: [4, 32] in the file, [8, 32] in the model"));
  CHECK_THAT(adapter_failure({}, {"gpt2", {"c_attn"}, 4, 2}), Contains("scaled by 1.5 (lora_alpha, r), and here by 2"));
  CHECK_THAT(adapter_failure({}, {"gpt2", {"c_attn", "c_fc"}}),
             Contains("mlp.c_fc.lora_A.weight: missing in the file"));
  CHECK_THAT(adapter_failure({}, {"gpt2", {"c_fc"}}),
             Contains("c_attn.lora_A.weight: in the file, but not in the model"));
  CHECK_THAT(adapter_failure({{"use_dora", true}}, same), Contains("use_dora true: ") && Contains("DoRA"));
  CHECK_THAT(adapter_failure({{"bias", "all"}}, same), Contains("bias \"all\""));
  CHECK_THAT(adapter_failure({{"peft_type", "LOHA"}}, same), Contains("expected LORA"));
  CHECK_THAT(adapter_failure({{"rank_pattern", {{"c_attn", 2}}}}, same), Contains("rank_pattern"));
  CHECK_THAT(adapter_failure({{"init_lora_weights", "pissa"}}, same), Contains("changes the weights of the base"));
  CHECK_THAT(adapter_failure({{"some_later_feature", 3}}, same), Contains("some_later_feature 3"));
  CHECK_THAT(adapter_failure({{"r", "four"}}, same), Contains("another type"));
}

TEST_CASE("modules whose names end in a saved one's are exported, too", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork published = adapted_network("distilbert_classifier");
  model::ModelConfig config = adapted_config({"distilbert_classifier", {"query"}});
  config.lora->modules_to_save = std::vector<std::string>{"classifier"};
  const auto model = trained_on_base(config, published, scratch / "base");
  pretrained::export_adapters(*model, config, pretrained::model_info_of(*model, published.input.shape),
                              {.directory = scratch / "adapter", .base = scratch / "base"});
  const auto written = nlohmann::json::parse(core::read_file(scratch / "adapter" / "adapter_config.json"));
  CHECK(written["modules_to_save"] == nlohmann::json({"classifier", "pre_classifier"}));
  CHECK(checkpoint::read_safetensors(scratch / "adapter" / "adapter_model.safetensors")
            .contains("base_model.model.pre_classifier.weight"));
}

TEST_CASE("adapters on a head that is trained in full are refused", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork published = adapted_network("bert_classifier");
  model::ModelConfig config = adapted_config({"bert_classifier", {"query", "pooler.dense"}});
  config.lora->modules_to_save = std::vector<std::string>{};
  const auto model = built_adapted(config, published.input);
  pretrained::export_adapters(*model, config, pretrained::model_info_of(*model, published.input.shape),
                              {.directory = scratch.path()});
  config.init_from = (scratch / "base_model").string();
  config.lora->init_from = scratch.path().string();
  CHECK_THAT(load_adapted(*built_adapted(config, published.input), config, published.input),
             Catch::Contains("with adapters from"));
  config.lora->modules_to_save = std::nullopt;
  for (const model::InitPolicy policy : {model::InitPolicy::new_head, model::InitPolicy::partial}) {
    config.init_policy = policy;
    CHECK_THROWS_WITH(load_adapted(*built_adapted(config, published.input), config, published.input),
                      Catch::Contains("bert.pooler.dense.lora_A.weight: in the file, but not in the model"));
  }
}

TEST_CASE("a new head that adapters would leave frozen is refused", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork published = adapted_network("bert_classifier");
  model::ModelConfig config = adapted_config({"bert_classifier", {"query"}});
  checkpoint::TensorMap weights;
  for (const model::NamedTensor& named :
       model::named_parameters(*built_adapted({.network = config.network}, published.input)))
    if (!named.name.starts_with("classifier.")) weights[named.name] = named.tensor.detach();
  checkpoint::write_safetensors(scratch / "headless.safetensors", weights, {}, core::Durability::process);
  config.init_from = (scratch / "headless.safetensors").string();
  CHECK_THAT(load_adapted(*built_adapted(config, published.input), config, published.input),
             Catch::Contains("newly initialized: classifier.weight"));
  config.lora->modules_to_save = std::vector<std::string>{};
  CHECK_THROWS_WITH(load_adapted(*built_adapted(config, published.input), config, published.input),
                    Catch::Contains("classifier.weight: missing in the file, and frozen here"));
}

TEST_CASE("an embedding that the output layer shares can't be exported beside adapters", "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork published = adapted_network("gpt2");
  model::ModelConfig config = adapted_config({"gpt2", {"c_attn"}});
  config.lora->modules_to_save = std::vector<std::string>{"wte"};
  const auto model = built_adapted(config, published.input);
  CHECK_THROWS_WITH(
      pretrained::export_adapters(*model, config, pretrained::model_info_of(*model, published.input.shape),
                                  {.directory = scratch / "out"}),
      Catch::Contains("transformer.wte.weight was trained, and the output layer shares it"));
  CHECK_FALSE(fs::exists(scratch / "out"));
}

}  // namespace trainctl::train
