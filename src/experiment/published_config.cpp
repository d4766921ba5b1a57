#include "experiment/published_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/hub_name.h"
#include "core/text.h"
#include "experiment/published_keys.h"
#include "experiment/sentence_transformers.h"
#include "model/config.h"

namespace trainctl::experiment {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A config.json, with its text, in which keys have their lines.
struct PublishedConfig {
  std::string path;
  std::string text;
  Json json;

  /// Returns where the key is written, or the file's beginning.
  config::Origin origin_of(const std::string& key) const {
    const std::size_t place = text.find('"' + key + '"');
    const std::size_t end = place == std::string::npos ? 0 : place;
    const std::size_t line_begin = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
    const std::size_t begin = line_begin == std::string::npos ? 0 : line_begin + 1;
    return {
        .kind = config::OriginKind::file,
        .source = path,
        .line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
        .column = 1 + static_cast<int>(end - begin)};
  }
  /// Returns the value of a key, for a message.
  std::string json_of(const std::string& key) const {
    const auto value = json.find(key);
    return value == json.end() ? "" : value->dump().substr(0, 100);
  }
};

PublishedConfig open_config(const fs::path& path) {
  constexpr std::uint64_t kLargest = 16 << 20;
  PublishedConfig config{.path = path.string(), .text = core::read_file(path, kLargest), .json = {}};
  config.json = Json::parse(config.text, nullptr, /*allow_exceptions=*/false);
  if (!config.json.is_object()) throw core::Error(path.string() + " is no JSON object");
  return config;
}

config::Node node_of(const Json& value, const config::Origin& origin) {
  if (value.is_array() || value.is_object()) {
    config::Node node = value.is_array() ? config::Node::sequence(origin) : config::Node::mapping(origin);
    for (const auto& [key, item] : value.items()) {
      if (value.is_array())
        node.items.push_back(node_of(item, origin));
      else
        node.add(key, origin, node_of(item, origin));
    }
    return node;
  }
  if (value.is_null()) return config::Node{.origin = origin};
  const bool is_text = value.is_string();
  return config::Node::scalar(is_text ? value.get<std::string>() : value.dump(),
                              is_text ? config::ScalarStyle::quoted : config::ScalarStyle::plain, origin);
}

std::string unknown_network(const PublishedConfig& config) {
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
  if (!fs::is_directory(path, unknown))
    return "the kind of the network follows from a directory's config.json, and " + path +
           " is a file of weights alone; set " + section + ".kind and its sizes";
  return "there is no config.json in " + path + ", from which the kind of the network would follow; set " + section +
         ".kind";
}

void adopt(config::Node& model, const PublishedConfig& config, const std::vector<PublishedKey>& keys) {
  for (const PublishedKey& key : keys)
    if (model.find(key.ours) == nullptr) {
      const config::Origin origin = config.origin_of(key.theirs);
      model.add(key.ours, origin, node_of(key.value, origin));
    }
}

/// Takes the pooling of a directory of sentence-transformers, where the user chooses none.
void adopt_pooling(const NetworkSection& section, const fs::path& directory, const config::Origin& place,
                   config::Problems& problems) {
  if (section.node->find("pooling") != nullptr) return;
  try {
    if (const auto pooling = read_sentence_pooling(directory))
      adopt(*section.node, open_config(pooling->file), pooling->keys);
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
    const PublishedConfig config = open_config(path);
    const std::optional<PublishedKeys> keys = published_keys(config.json);
    if (!keys) return report(unknown_network(config));
    if (has_kind && model->find("kind")->text != keys->kind) return;
    for (const model::RefusedKey& refused : keys->refused)
      problems.add(config.origin_of(refused.key), section.path + ".init_from",
                   refused.key + " " + config.json_of(refused.key) + ": " + refused.reason);
    // Before the keys of config.json, of which the package leaves the pooler out.
    if (keys->kind == model::BertConfig::kind) adopt_pooling(section, path.parent_path(), place, problems);
    adopt(*model, config, keys->keys);
  } catch (const core::Error& error) {
    report(error.what());
  }
}

}  // namespace trainctl::experiment
