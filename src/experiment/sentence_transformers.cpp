#include "experiment/sentence_transformers.h"

#include <map>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"

namespace trainctl::experiment {
namespace {

namespace fs = std::filesystem;
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

}  // namespace

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

}  // namespace trainctl::experiment
