#include "pretrained/adapter_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/hub_name.h"
#include "core/json.h"
#include "model/adapter_json.h"
#include "pretrained/adapter_names.h"
#include "pretrained/model_info.h"
#include "pretrained/state_dict_adapter.h"
#include "pretrained/torch_file.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestAdapterConfig = 16 << 20;

nlohmann::json read_object(const fs::path& path) {
  const auto json = core::parse_json_or_discard(core::read_file(path, kLargestAdapterConfig));
  if (!json.is_object()) throw core::Error(path.string() + " is no JSON object");
  return json;
}

model::AdapterJson read_config(const fs::path& path) {
  const nlohmann::json json = read_object(path);
  try {
    const model::AdapterJson found = model::read_adapter_json(json);
    if (found.refused.empty()) return found;
    const model::RefusedKey& refused = found.refused.front();
    throw core::Error(path.string() + ": " + refused.key + " " + json.value(refused.key, nlohmann::json()).dump() +
                      ": " + refused.reason);
  } catch (const nlohmann::json::exception& error) {
    throw core::Error(path.string() + ": a key has a value of another type than peft writes: " + error.what());
  }
}

void check_scale(const fs::path& path, const model::AdapterJson& file, const model::LoraConfig& lora) {
  constexpr double kRounded = 1e-6;
  const double scale = lora.alpha / static_cast<double>(lora.rank);
  if (std::abs(scale - file.scale) <= kRounded * file.scale) return;
  throw core::Error(path.string() + ": adapters are scaled by " + nlohmann::json(file.scale).dump() +
                    " (lora_alpha, r), and here by " + nlohmann::json(scale).dump() + " (model.lora.alpha / rank)")
      .hint("leave model.lora.rank and alpha out, so that adapter_config.json gives them");
}

/// Refuses a file that trains one use of a matrix that the embedding and the output layer share. peft trains a copy for
/// this use, and the other use keeps the base's values.
void check_tied(const fs::path& path, const nlohmann::json& config, const checkpoint::TensorMap& tensors,
                const model::NetworkConfig& network, model::Model& model) {
  const auto saved = config.find("modules_to_save");
  if (saved == config.end() || saved->is_null() || config.value("ensure_weight_tying", false)) return;
  const model::ModelTraits& traits = config::traits_of(network);
  const std::string embedding(*traits.embedding);
  const std::string output(*traits.tied_output);
  bool is_tied = !output.empty() && model_info_of(model, {}).num_outputs == 0;
  model.visit_parameters([&](const std::string& name, model::TensorDecl&) { is_tied = is_tied && name != output; });
  if (!is_tied || !(tensors.contains(embedding) || tensors.contains(output))) return;
  throw core::Error(path.string() + ": modules_to_save " + saved->dump() + ": " + embedding +
                    " is the output layer, too, and peft trains a copy for one of the two")
      .hint("train the adapters anew with ensure_weight_tying, or without the embedding and the output layer");
}

checkpoint::TensorMap read_tensors(const fs::path& directory) {
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin"}) {
    const fs::path path = directory / name;
    if (!fs::exists(path)) continue;
    return is_torch_file(path) ? read_torch_file(path).tensors : checkpoint::read_safetensors(path);
  }
  throw core::Error("no adapters in " + directory.string() + ": expected adapter_model.safetensors")
      .hint("give model.lora.init_from a directory that peft or 'trainctl export --format peft' wrote");
}

}  // namespace

checkpoint::TensorMap read_adapters(const fs::path& directory, const model::NetworkConfig& network,
                                    const model::LoraConfig& lora, model::Model& model) {
  const fs::path config = directory / kAdapterConfig;
  if (!fs::exists(directory)) throw core::missing_weights_error(directory.string());
  if (!fs::exists(config))
    throw core::Error("there is no " + std::string(kAdapterConfig) + " in " + directory.string())
        .hint("give model.lora.init_from a directory that peft or 'trainctl export --format peft' wrote");
  check_scale(config, read_config(config), lora);
  checkpoint::TensorMap tensors;
  constexpr std::string_view kPrefix = "base_model.model.";
  for (const auto& [name, tensor] : read_tensors(directory))
    tensors[name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name] = tensor;
  checkpoint::TensorMap named = as_named_here(adapters_from_transformers(tensors, network, lora.rank), network, model);
  check_tied(config, read_object(config), named, network, model);
  return named;
}

model::ModelConfig with_adapters_of(model::ModelConfig config, const fs::path& directory) {
  const fs::path path = directory / kAdapterConfig;
  const model::AdapterJson file = read_config(path);
  core::ensure(config.lora.has_value(), "a network with adapters is configured with them");
  config.lora->rank = file.rank;
  config.lora->alpha = file.scale * static_cast<double>(file.rank);
  config.lora->init_from = directory.string();
  config.init_from = read_object(path).at("base_model_name_or_path").get<std::string>();
  return config;
}

}  // namespace trainctl::pretrained
