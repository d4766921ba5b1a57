#include "experiment/published_adapter.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/hub_name.h"
#include "core/json.h"
#include "experiment/published_file.h"
#include "model/adapter_json.h"
#include "model/config.h"

namespace trainctl::experiment {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A linear layer inside a block that transformers calls otherwise.
struct LayerName {
  std::string_view theirs;
  std::string_view here;          // in place of `theirs` at the end of a longer name
  std::string_view pattern = {};  // for a shorter name than `theirs`; empty: `here`
  bool is_joined = false;         // several of theirs are one matrix here

  std::string as_pattern() const { return std::string(pattern.empty() ? here : pattern); }
};

constexpr LayerName kBert[] = {{"attention.q_lin", "attention.self.query"},
                               {"attention.k_lin", "attention.self.key"},
                               {"attention.v_lin", "attention.self.value"},
                               {"attention.out_lin", "attention.output.dense"},
                               {"ffn.lin1", "intermediate.dense"},
                               {"ffn.lin2", "output.dense", "*[0-9].output.dense"},
                               {"embeddings_project", "embeddings.projection"}};
// The names of transformers 5, then those of 4.
constexpr LayerName kVit[] = {{"attention.q_proj", "attn.qkv", {}, true},
                              {"attention.k_proj", "attn.qkv", {}, true},
                              {"attention.v_proj", "attn.qkv", {}, true},
                              {"attention.o_proj", "attn.proj"},
                              {"attention.attention.query", "attn.qkv", {}, true},
                              {"attention.attention.key", "attn.qkv", {}, true},
                              {"attention.attention.value", "attn.qkv", {}, true},
                              {"attention.output.dense", "attn.proj"},
                              {"intermediate.dense", "mlp.fc1"},
                              {"output.dense", "mlp.fc2"}};
constexpr LayerName kLlama[] = {{"self_attn.qkv_proj", "self_attn.q_proj"},
                                {"self_attn.qkv_proj", "self_attn.k_proj"},
                                {"self_attn.qkv_proj", "self_attn.v_proj"},
                                {"mlp.gate_up_proj", "mlp.gate_proj"},
                                {"mlp.gate_up_proj", "mlp.up_proj"}};

std::span<const LayerName> names_of(std::string_view kind) {
  if (kind == model::BertConfig::kind) return kBert;
  if (kind == model::VitConfig::kind) return kVit;
  if (kind == model::LlamaConfig::kind) return kLlama;
  return {};
}

/// Returns the name with the beginning that blocks have here.
std::string with_own_prefix(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kPrefixes = {
      {{"roberta.", "bert."},
       {"electra.", "bert."},
       {"distilbert.transformer.layer.", "bert.encoder.layer."},
       {"vit.layers.", "blocks."},
       {"vit.encoder.layer.", "blocks."},
       {"deit.layers.", "blocks."},
       {"deit.encoder.layer.", "blocks."},
       {"vision_model.encoder.layers.", "blocks."}}};
  for (const auto& [theirs, here] : kPrefixes)
    if (name.starts_with(theirs)) return std::string(here) + name.substr(theirs.size());
  return name;
}

struct Targets {
  std::vector<std::string> patterns;
  bool is_joined = false;
};

/// Returns the patterns here for the layers that peft chooses by the ends of their names.
Targets targets_of(const std::vector<std::string>& theirs, std::string_view kind) {
  Targets targets;
  const auto add = [&](const std::string& pattern) {
    if (std::find(targets.patterns.begin(), targets.patterns.end(), pattern) == targets.patterns.end())
      targets.patterns.push_back(pattern);
  };
  for (const std::string& name : theirs) {
    bool is_known = false;
    // A longer row first: "attention.output.dense" ends in "output.dense".
    for (const LayerName& row : names_of(kind)) {
      const std::string end = "." + std::string(row.theirs);
      if (name.ends_with(end)) {
        const bool is_of_longer_row =
            std::any_of(names_of(kind).begin(), names_of(kind).end(), [&](const LayerName& other) {
              return other.theirs.size() > row.theirs.size() && ("." + name).ends_with("." + std::string(other.theirs));
            });
        if (is_of_longer_row) continue;
        add(with_own_prefix(name.substr(0, name.size() - row.theirs.size()) + std::string(row.here)));
      } else if (row.theirs == name || row.theirs.ends_with("." + name)) {
        add(row.as_pattern());
      } else {
        continue;
      }
      is_known = true;
      targets.is_joined = targets.is_joined || row.is_joined;
    }
    if (!is_known) add(with_own_prefix(name));
  }
  return targets;
}

/// Returns the layers that are trained in full. Null: the heads that are trained here without this key.
std::optional<std::vector<std::string>> saved_modules(const std::vector<std::string>& theirs,
                                                      const config::Node& model) {
  if (theirs.empty()) return theirs;  // heads may have adapters, or the base's values
  const auto is_head = [](const std::string& name) {
    constexpr std::array<std::string_view, 7> kHeads = {"classifier",     "score", "pre_classifier",         "pooler",
                                                        "cls_classifier", "fc",    "distillation_classifier"};
    const std::string first = name.substr(0, name.find('.'));
    return std::find(kHeads.begin(), kHeads.end(), first) != kHeads.end() || name.ends_with(".pooler.dense");
  };
  if (!std::all_of(theirs.begin(), theirs.end(), is_head)) {
    std::vector<std::string> names;
    for (const std::string& name : theirs)
      if (name != "score") names.push_back(with_own_prefix(name));  // peft lists it with every classifier
    return names;
  }
  // BERT's pooler is no part of the classifier that peft trains. That of the other families is.
  const config::Node* const kind = model.find("kind");
  const bool is_bert = kind != nullptr && kind->text == model::BertConfig::kind;
  const bool is_classifier_alone = std::all_of(
      theirs.begin(), theirs.end(), [](const std::string& name) { return name == "classifier" || name == "score"; });
  const bool has_own_pooler = is_bert && is_classifier_alone && model.find("dropout_before_pooler") == nullptr &&
                              model.find("pooler") == nullptr;
  return has_own_pooler ? std::optional(std::vector<std::string>{"classifier"}) : std::nullopt;
}

const config::Node* mapping_of(const config::Node* parent, const char* key) {
  const config::Node* const node = parent == nullptr ? nullptr : parent->find(key);
  return node != nullptr && node->kind == config::NodeKind::mapping ? node : nullptr;
}

std::optional<std::int64_t> written_rank(const config::Node& lora) {
  const config::Node* const rank = lora.find("rank");
  if (rank == nullptr || rank->kind != config::NodeKind::scalar) return std::nullopt;
  const Json value = core::parse_json_or_discard(rank->text);
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

/// Returns the keys of model.lora that the file gives.
std::vector<PublishedKey> keys_of(const model::AdapterJson& adapter, const config::Node& model,
                                  const config::Node& lora) {
  const config::Node* const kind = model.find("kind");
  std::vector<PublishedKey> keys;
  std::int64_t rank = adapter.rank;
  if (adapter.target_modules) {
    const Targets targets = targets_of(*adapter.target_modules, kind == nullptr ? "" : kind->text);
    // Three matrices are one here: its adapter holds three of the file's, one below the other.
    constexpr std::int64_t kJoined = 3;
    if (targets.is_joined) rank *= kJoined;
    keys.push_back({.ours = "target_modules", .theirs = "target_modules", .value = targets.patterns});
  }
  keys.push_back({.ours = "rank", .theirs = "r", .value = rank});
  keys.push_back({.ours = "alpha",
                  .theirs = "lora_alpha",
                  .value = adapter.scale * static_cast<double>(written_rank(lora).value_or(rank))});
  keys.push_back({.ours = "dropout", .theirs = "lora_dropout", .value = adapter.dropout});
  if (const auto saved = saved_modules(adapter.modules_to_save, model))
    keys.push_back({.ours = "modules_to_save", .theirs = "modules_to_save", .value = *saved});
  return keys;
}

}  // namespace

void adopt_published_adapter(config::Node& written, config::Problems& problems) {
  const config::Node* const model = mapping_of(&written, "model");
  if (mapping_of(model, "lora") == nullptr) return;
  config::Node& lora = *written.find("model")->find("lora");
  const config::Node* const init_from = lora.find("init_from");
  if (init_from == nullptr || init_from->kind != config::NodeKind::scalar) return;
  const config::Origin place = init_from->origin;
  const auto report = [&](const std::string& message) { problems.add(place, "model.lora.init_from", message); };
  const fs::path path = fs::path(init_from->text) / "adapter_config.json";
  std::error_code unknown;
  if (!fs::exists(path, unknown)) {
    if (lora.find("target_modules") != nullptr) return;  // the loader says what is missing
    return report(fs::exists(init_from->text, unknown)
                      ? "there is no adapter_config.json in " + init_from->text +
                            "; expected a directory that peft or 'trainctl export --format peft' wrote"
                      : core::missing_weights(init_from->text));
  }
  try {
    const PublishedFile file = open_published(path);
    const model::AdapterJson adapter = model::read_adapter_json(file.json);
    for (const model::RefusedKey& refused : adapter.refused)
      problems.add(file.origin_of(refused.key), "model.lora.init_from",
                   refused.key + " " + file.json_of(refused.key) + ": " + refused.reason);
    if (!adapter.target_modules && lora.find("target_modules") == nullptr)
      problems.add(file.origin_of("target_modules"), "model.lora.target_modules",
                   "adapter_config.json chooses its layers otherwise than by a list of names; list them here");
    adopt(lora, file, keys_of(adapter, *model, lora));
  } catch (const Json::exception& error) {
    report("adapter_config.json: a key has a value of another type than peft writes: " + std::string(error.what()));
  } catch (const core::Error& error) {
    report(error.what());
  }
}

}  // namespace trainctl::experiment
