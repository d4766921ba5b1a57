#include "experiment/published_config.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/flatten.h"
#include "config/read.h"
#include "config/write.h"
#include "core/error.h"
#include "core/file.h"
#include "core/hub_name.h"
#include "core/json.h"
#include "core/text.h"
#include "dataset/config.h"
#include "experiment/published_file.h"
#include "experiment/published_keys.h"
#include "model/config.h"

namespace trainctl::experiment {
namespace {

namespace fs = std::filesystem;

/// Keys of `model` and the file that gives them.
struct SentencePooling {
  std::filesystem::path file;
  std::vector<PublishedKey> keys;
};

using Json = nlohmann::json;

/// The poolings that exist here, by the package's names.
const std::map<std::string, std::string>& our_poolings() {
  static const std::map<std::string, std::string> poolings = {{"cls", "first"}, {"mean", "mean"}, {"max", "max"}};
  return poolings;
}

Json read_json(const fs::path& path) {
  constexpr std::uint64_t kLargest = 1 << 20;
  Json json = core::parse_json_or_discard(core::read_file(path, kLargest));
  if (json.is_discarded()) throw core::Error(path.string() + " is no JSON");
  return json;
}

/// Returns a text of the module, or "".
std::string text_in(const Json& module, const char* key) {
  const auto found = module.is_object() ? module.find(key) : module.end();
  return found != module.end() && found->is_string() ? found->get<std::string>() : "";
}

/// A pooling by the key that chose it: `pooling_mode` since version 5.5, before that one bool for each mode.
struct PoolingMode {
  std::string key;
  std::string mode;
};

std::vector<PoolingMode> modes_in(const Json& config) {
  constexpr const char* kMode = "pooling_mode";
  std::vector<PoolingMode> modes;
  for (const auto& [key, value] : config.items()) {
    if (key == kMode && value.is_string()) modes.push_back({key, value.get<std::string>()});
    if (key == kMode && value.is_array())
      for (const Json& one : value) modes.push_back({key, one.is_string() ? one.get<std::string>() : one.dump()});
    if (!key.starts_with("pooling_mode_") || value != true) continue;
    std::string mode = key.substr(std::string_view("pooling_mode_").size());
    for (const std::string_view end : {"_tokens", "_token"})
      if (mode.ends_with(end)) mode.resize(mode.size() - end.size());
    modes.push_back({key, std::move(mode)});
  }
  return modes;
}

std::vector<PublishedKey> pooling_keys(const fs::path& path) {
  const Json config = read_json(path);
  const std::vector<PoolingMode> modes = config.is_object() ? modes_in(config) : std::vector<PoolingMode>{};
  const std::string expected = "; expected one pooling of cls, mean or max";
  if (modes.empty()) throw core::Error(path.string() + ": pooling_mode is missing" + expected);
  if (modes.size() > 1)
    throw core::Error(path.string() + ": " + modes[1].key + " adds a second pooling, " + modes[1].mode + expected);
  const auto& [key, mode] = modes.front();
  const auto found = our_poolings().find(mode);
  if (found == our_poolings().end()) throw core::Error(path.string() + ": " + key + " is " + mode + expected);
  return {{.ours = "pooling", .theirs = key, .value = found->second},
          {.ours = "pooler", .theirs = key, .value = "none"},
          {.ours = "dropout_before_pooler", .theirs = key, .value = false}};
}

/// Reads modules.json and the pooling's config.json; nothing if the directory has no modules.json. A module or a
/// pooling that no key of `model` expresses is an Error.
std::optional<SentencePooling> read_sentence_pooling(const fs::path& directory) {
  const fs::path list = directory / "modules.json";
  std::error_code unknown;
  if (!fs::exists(list, unknown)) return std::nullopt;
  const Json modules = read_json(list);
  SentencePooling pooling;
  bool is_normalized = false;
  for (const Json& module : modules) {
    const std::string type = text_in(module, "type");
    const std::string name = type.substr(type.rfind('.') + 1);
    const std::string path = text_in(module, "path");
    if (fs::path(path).is_absolute() || path.find("..") != std::string::npos)
      throw core::Error(list.string() + ": path is " + path + "; expected a directory beside modules.json");
    if (name == "Pooling" && pooling.keys.empty()) {
      pooling.file = directory / path / "config.json";
      pooling.keys = pooling_keys(pooling.file);
    } else if (name == "Normalize") {
      is_normalized = true;
    } else if (name != "Transformer" || !path.empty()) {
      throw core::Error(list.string() + ": type is " + type + (path.empty() ? "" : " in " + path) +
                        "; expected a Transformer beside modules.json, one Pooling, and Normalize");
    }
  }
  if (pooling.keys.empty()) throw core::Error(list.string() + ": a module of type Pooling is missing");
  if (is_normalized) pooling.keys.push_back({.ours = "normalize_pooled", .theirs = "", .value = true});
  return pooling;
}

std::string unknown_network(const PublishedFile& config) {
  const auto timm = model::kinds_where([](const model::ModelTraits& traits) { return *traits.is_in_timm; });
  std::string found = "neither model_type nor architecture";
  for (const char* key : {"architecture", "model_type"})
    if (const auto value = config.json.find(key); value != config.json.end())
      found = std::string(key) + " " + value->dump().substr(0, 100);
  return config.path + " has " + found + "; expected a model_type of " +
         core::list_words(published_model_types(), "or") + ", or timm's architecture of " +
         core::list_words(timm, "or");
}

/// Returns what is wrong with a path that gives no kind.
std::string no_config(const std::string& path, const std::string& section) {
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return core::missing_weights(path);
  if (fs::exists(fs::path(path) / "adapter_config.json", unknown))
    return path +
           " has adapters without the weights that they adapt; set model.lora.init_from to it, and init_from to "
           "the base that its adapter_config.json names";
  if (!fs::is_directory(path, unknown))
    return "the kind of the network follows from a directory's config.json, and " + path +
           " is a file of weights alone; set " + section + ".kind and its sizes";
  return "there is no config.json in " + path + ", from which the kind of the network would follow; set " + section +
         ".kind";
}

/// Takes the pooling of a directory of sentence-transformers, where the user chooses none.
void adopt_pooling(const NetworkSection& section, const fs::path& directory, const config::Origin& place,
                   config::Problems& problems) {
  if (section.node->find("pooling") != nullptr) return;
  try {
    if (const auto pooling = read_sentence_pooling(directory))
      adopt(*section.node, open_published(pooling->file), pooling->keys);
  } catch (const core::Error& error) {
    problems.add(place, section.path + ".pooling", error.what());
  }
}

}  // namespace

void adopt_published_config(const NetworkSection& section, config::Problems& problems) {
  config::Node* const model = section.node;
  if (model == nullptr || model->kind != config::NodeKind::mapping) return;
  const bool has_kind = model->find("kind") != nullptr;
  const config::Node* const init_from = model->find("init_from");
  if (init_from == nullptr) return;
  const config::Origin place = init_from->origin;
  const auto report = [&](const std::string& message) {
    if (!has_kind) problems.add(place, section.path + ".kind", message);
  };
  if (init_from->kind != config::NodeKind::scalar)
    return report("names no weights, from which " + section.path + ".kind would follow");
  const fs::path path = fs::path(init_from->text) / "config.json";
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return report(no_config(init_from->text, section.path));
  try {
    const PublishedFile config = open_published(path);
    const config::Node* const head = model->find("head");
    const bool has_tags = head != nullptr && head->text == config::name_of(model::BertHead::token_classification);
    const std::optional<PublishedKeys> keys =
        published_keys(config.json, has_tags ? Classified::tokens : Classified::sequences);
    if (!keys) return report(unknown_network(config));
    if (has_kind && model->find("kind")->text != keys->kind) return;
    for (const model::RefusedKey& refused : keys->refused)
      if (refused.settled_by.empty() || model->find(refused.settled_by) == nullptr)
        problems.add(config.origin_of(refused.key), section.path + ".init_from",
                     refused.key + " " + config.json_of(refused.key) + ": " + refused.reason);
    // Before the keys of config.json, of which the package leaves the pooler out.
    if (keys->kind == model::BertConfig::kind) adopt_pooling(section, path.parent_path(), place, problems);
    adopt(*model, config, keys->keys);
  } catch (const core::Error& error) {
    report(error.what());
  }
}

std::vector<std::string> timm_differences(const nlohmann::json& config_json, const model::NetworkConfig& network) {
  if (!config_json.is_object() || config_json.contains("model_type")) return {};
  std::optional<PublishedKeys> published = published_keys(config_json);
  if (!published || published->kind != network.kind()) return {};
  // What is classified is the user's choice, as is the classifier.
  std::erase_if(published->keys, [](const PublishedKey& key) { return key.ours == "pool"; });
  config::Node section = config::Node::mapping();
  adopt(section, {.path = "config.json", .text = {}, .json = config_json}, published->keys);
  config::Problems problems;
  const auto described = config::read<model::ModelConfig>(section, problems, "model");
  problems.throw_if_any();
  const auto theirs = config::flatten(config::write(described));
  const auto ours = config::flatten(config::write(model::ModelConfig{.network = network}));
  std::vector<std::string> found;
  for (const PublishedKey& key : published->keys)
    if (theirs.at(key.ours) != ours.at(key.ours))
      found.push_back(key.ours + " is " + theirs.at(key.ours) + " by timm's " + key.theirs + " and " +
                      ours.at(key.ours) + " here (model." + key.ours + ")");
  return found;
}

void adopt_published_start_token(config::Node& written, config::Problems& problems) {
  const auto mapping = [&](const char* key) {
    config::Node* const node = written.find(key);
    return node != nullptr && node->kind == config::NodeKind::mapping ? node : nullptr;
  };
  const config::Node* const model = mapping("model");
  config::Node* const dataset = mapping("dataset");
  if (model == nullptr || dataset == nullptr) return;
  constexpr const char* kKey = "decoder_start_token_id";
  const config::Node* const init_from = model->find("init_from");
  const config::Node* const kind = dataset->find("kind");
  const config::Node* const network = model->find("kind");
  config::Node* const given = dataset->find(kKey);
  const bool is_open = given == nullptr || (given->kind == config::NodeKind::scalar && given->text == "auto");
  if (!is_open || init_from == nullptr || init_from->kind != config::NodeKind::scalar) return;
  if (kind == nullptr || kind->text != dataset::TextSeq2SeqConfig::kind) return;
  if (network == nullptr || network->text != model::T5Config::kind) return;
  const fs::path path = fs::path(init_from->text) / "config.json";
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return;
  try {
    std::optional<PublishedFile> file = open_published(path);
    Json start = file->json.value(kKey, Json());
    // transformers trains by config.json, and generates by the file beside it.
    if (const fs::path beside = path.parent_path() / "generation_config.json"; fs::exists(beside, unknown)) {
      PublishedFile generation = open_published(beside);
      const Json generated = generation.json.value(kKey, Json());
      if (!generated.is_null() && !start.is_null() && generated != start)
        return problems.add(generation.origin_of(kKey), std::string("dataset.") + kKey,
                            generated.dump() + " differs from config.json's " + start.dump() +
                                "; set the one that the network was trained with");
      if (start.is_null()) {
        start = generated;
        file = std::move(generation);
      }
    }
    if (start.is_null()) return;
    if (given == nullptr)
      adopt(*dataset, *file, {{.ours = kKey, .theirs = kKey, .value = start}});
    else
      *given = config::Node::scalar(start.dump(), config::ScalarStyle::plain, file->origin_of(kKey));
  } catch (const core::Error& error) {
    problems.add(init_from->origin, std::string("dataset.") + kKey, error.what());
  }
}

}  // namespace trainctl::experiment
