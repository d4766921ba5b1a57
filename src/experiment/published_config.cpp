#include "experiment/published_config.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/flatten.h"
#include "config/read.h"
#include "config/write.h"
#include "core/error.h"
#include "core/hub_name.h"
#include "core/text.h"
#include "dataset/config.h"
#include "experiment/published_file.h"
#include "experiment/published_keys.h"
#include "experiment/sentence_transformers.h"
#include "model/config.h"

namespace trainctl::experiment {
namespace {

namespace fs = std::filesystem;

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
    const std::optional<PublishedKeys> keys = published_keys(config.json);
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
    const PublishedFile config = open_published(path);
    const auto start = config.json.find(kKey);
    if (start == config.json.end() || start->is_null()) return;
    if (given == nullptr)
      adopt(*dataset, config, {{.ours = kKey, .theirs = kKey, .value = *start}});
    else
      *given = config::Node::scalar(start->dump(), config::ScalarStyle::plain, config.origin_of(kKey));
  } catch (const core::Error& error) {
    problems.add(init_from->origin, std::string("dataset.") + kKey, error.what());
  }
}

}  // namespace trainctl::experiment
