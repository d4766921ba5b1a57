#include "pretrained/export_adapters.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "model/layers/transposed_linear.h"
#include "model/lora.h"
#include "pretrained/adapter_file.h"
#include "pretrained/adapter_names.h"
#include "pretrained/export_weights.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/state_dict_adapter.h"
#include "pretrained/tokenizer_files.h"
#include "pretrained/weights_source.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using checkpoint::TensorMap;

/// The model's tensors on the host, in single precision.
struct SplitModel {
  TensorMap adapters;
  TensorMap weights;              // all others
  std::set<std::string> trained;  // of the weights
};

SplitModel taken_apart(model::Model& model) {
  SplitModel apart;
  model.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    const at::Tensor host = decl.value.detach().to(at::kCPU, at::kFloat);
    (model::is_adapter(name) ? apart.adapters : apart.weights)[name] = host;
    if (decl.trainable && !model::is_adapter(name)) apart.trained.insert(name);
  });
  return apart;
}

/// Returns whether transformers loads the directory.
bool is_in_layout(const std::optional<fs::path>& base) {
  return base && fs::is_directory(*base) && fs::exists(*base / "config.json") &&
         (fs::exists(*base / "model.safetensors") || fs::exists(*base / "model.safetensors.index.json") ||
          fs::exists(*base / "pytorch_model.bin") || fs::exists(*base / "pytorch_model.bin.index.json"));
}

/// Returns the names of weights that the base lacks, or has with other values.
std::set<std::string> changed(const SplitModel& apart, const fs::path& base, const model::NetworkConfig& network,
                              model::Model& model) {
  std::set<std::string> names;
  const TensorMap published = as_named_here(open_weights(base).tensors, network, model);
  for (const auto& [name, tensor] : apart.weights) {
    auto found = published.find(name);
    for (const std::string& other : shared_with(name))
      if (found == published.end()) found = published.find(other);
    if (found == published.end() || !found->second.to(at::kFloat).equal(tensor)) names.insert(name);
  }
  return names;
}

/// Returns the module that peft wraps for a weight: a whole classifier, whatever is named within it.
std::string wrapped_module(const std::string& weight) {
  return weight.starts_with("classifier.") ? "classifier" : weight.substr(0, weight.rfind('.'));
}

/// Returns the modules in transformers that have the named weights, and those whose names end in theirs: peft wraps
/// `pre_classifier`, too, where `classifier` is saved.
std::set<std::string> modules_of(const std::set<std::string>& names, const TensorMap& weights,
                                 const model::NetworkConfig& network) {
  // Marks of no size, which are renamed, split and joined as the weights would be.
  const at::Tensor one = at::ones({}, at::kByte);
  const at::Tensor zero = at::zeros({}, at::kByte);
  TensorMap marks;
  for (const auto& [name, tensor] : weights) marks[name] = (names.contains(name) ? one : zero).expand(tensor.sizes());
  const TensorMap in_use = weights_in_use(marks, network);
  std::set<std::string> named;
  for (const auto& [name, mark] : in_use)
    if (mark.any().item<bool>()) named.insert(wrapped_module(name));
  std::set<std::string> modules;
  for (const auto& [name, mark] : in_use) {
    const std::string module = wrapped_module(name);
    const auto is_end = [&](const std::string& end) { return module.ends_with(end); };
    if (std::any_of(named.begin(), named.end(), is_end)) modules.insert(module);
  }
  return modules;
}

bool is_inside(const std::string& name, const std::string& module) {
  return name.starts_with(module + ".");
}

/// Refuses a trained embedding that the output layer shares: peft would train a copy of it.
void check_tied(const std::set<std::string>& names, const TensorMap& weights, const model::NetworkConfig& network,
                const ModelInfo& facts) {
  const model::ModelTraits& traits = config::traits_of(network);
  const std::string embedding(*traits.embedding);
  const bool is_tied = facts.num_outputs == 0 && !weights.contains(std::string(*traits.tied_output));
  if (!is_tied || !names.contains(embedding)) return;
  throw core::Error(embedding + " was trained, and the output layer shares it; peft's files can't express that")
      .hint("--format hf merges the adapters");
}

/// Returns the ends of the modules' names, or the whole names if other modules in `weights` have these ends.
std::vector<std::string> target_names(const TensorMap& adapters, const TensorMap& weights) {
  std::set<std::string> whole;
  std::set<std::string> ends;
  for (const auto& [name, tensor] : adapters) {
    const std::string module = name.substr(0, name.rfind(".lora_"));
    whole.insert(module);
    ends.insert(module.substr(module.rfind('.') + 1));
  }
  const bool are_ends_enough = std::all_of(weights.begin(), weights.end(), [&](const auto& one) {
    const std::string module = one.first.substr(0, one.first.rfind('.'));
    return whole.contains(module) || !ends.contains(module.substr(module.rfind('.') + 1));
  });
  const std::set<std::string>& names = are_ends_enough ? ends : whole;
  return {names.begin(), names.end()};
}

/// Returns peft's name of what the network is for; null for what peft has no name for.
Json task_type_of(const Json& config_json) {
  const std::string architecture = config_json["architectures"].at(0).get<std::string>();
  if (architecture.ends_with("ForSequenceClassification")) return "SEQ_CLS";
  if (architecture.ends_with("ForTokenClassification")) return "TOKEN_CLS";
  return architecture.ends_with("ForCausalLM") || architecture.ends_with("LMHeadModel") ? Json("CAUSAL_LM") : Json();
}

/// Returns a whole number as such, as peft writes it.
Json number_of(double value) {
  return value == std::floor(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

bool has_transposed_weights(model::Model& model) {
  bool found = false;
  model.visit_layers([&](const std::string&, model::Layer& layer) {
    found = found || dynamic_cast<model::TransposedLinear*>(&layer) != nullptr;
  });
  return found;
}

struct AdapterFacts {
  std::string base;
  Json task_type;
  double alpha;
  double dropout;
  bool has_transposed_weights;  // [in, out], as GPT-2's
};

Json adapter_config(const AdapterFacts& facts, const NamedAdapters& adapters, const TensorMap& weights,
                    const std::set<std::string>& saved) {
  return {{"alpha_pattern", Json::object()},
          {"auto_mapping", nullptr},
          {"base_model_name_or_path", facts.base},
          {"bias", "none"},
          {"fan_in_fan_out", facts.has_transposed_weights},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"layers_pattern", nullptr},
          {"layers_to_transform", nullptr},
          {"lora_alpha", number_of(facts.alpha)},
          {"lora_dropout", facts.dropout},
          {"modules_to_save", saved.empty() ? Json() : Json(saved)},
          {"peft_type", "LORA"},
          {"r", adapters.rank},
          {"rank_pattern", Json::object()},
          {"revision", nullptr},
          {"target_modules", target_names(adapters.tensors, weights)},
          {"task_type", facts.task_type},
          {"use_dora", false},
          {"use_rslora", false}};
}

}  // namespace

ExportedAdapters export_adapters(model::Model& model, const model::ModelConfig& config, const ModelInfo& facts,
                                 const AdapterRequest& request) {
  const Json config_json = hugging_face_config(config.network, facts);
  const SplitModel apart = taken_apart(model);
  if (apart.adapters.empty() || !config.lora)
    throw core::Error("the model has no adapters").hint("--format hf writes its weights; model.lora trains adapters");
  const bool has_base = is_in_layout(request.base);
  std::set<std::string> names = apart.trained;
  if (has_base) names.merge(changed(apart, *request.base, config.network, model));
  check_tied(names, apart.weights, config.network, facts);
  const std::set<std::string> saved = modules_of(names, apart.weights, config.network);
  const TensorMap weights = weights_in_use(apart.weights, config.network);
  const NamedAdapters adapters =
      adapters_to_transformers({.tensors = apart.adapters, .rank = config.lora->rank}, apart.weights, config.network);
  TensorMap tensors;
  for (const auto& [name, tensor] : adapters.tensors) tensors["base_model.model." + name] = tensor;
  for (const auto& [name, tensor] : weights)
    if (std::any_of(saved.begin(), saved.end(), [&](const std::string& module) { return is_inside(name, module); }))
      tensors["base_model.model." + name] = tensor;

  ExportedAdapters written{.base = fs::absolute(has_base ? *request.base : request.directory / "base_model"),
                           .files = {}};
  make_directory(request.directory);
  if (!has_base) written.files = write_layout(apart.weights, config.network, facts, {.directory = written.base});
  const double scale = config.lora->alpha / static_cast<double>(config.lora->rank);
  const AdapterFacts known{.base = written.base.string(),
                           .task_type = task_type_of(config_json),
                           .alpha = scale * static_cast<double>(adapters.rank),
                           .dropout = config.lora->dropout,
                           .has_transposed_weights = has_transposed_weights(model)};
  const fs::path file = request.directory / "adapter_model.safetensors";
  checkpoint::write_safetensors(request.directory / "adapter_model.safetensors.tmp", tensors, {{"format", "pt"}},
                                core::Durability::process);
  fs::rename(request.directory / "adapter_model.safetensors.tmp", file);
  core::write_file_atomically(request.directory / kAdapterConfig,
                              core::indented_json(adapter_config(known, adapters, weights, saved)) + "\n");
  written.files.insert(written.files.end(), {file, request.directory / kAdapterConfig});
  if (request.tokenizer)
    for (fs::path& one : copy_tokenizer(*request.tokenizer, request.directory)) written.files.push_back(std::move(one));
  return written;
}

}  // namespace trainctl::pretrained
