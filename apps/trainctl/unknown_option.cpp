#include "unknown_option.h"

#include <algorithm>

#include "config/keys.h"
#include "core/text.h"
#include "experiment/shape.h"

namespace trainctl::cli {
namespace {

/// Returns the shortest path of a key with this name, such as "train.epochs"; empty if there is none.
std::string key_called(const std::string& name) {
  std::string best;
  for (const config::KeyDescription& key : config::list_keys(experiment::experiment_shape())) {
    const bool fits = key.path == name || key.path.ends_with("." + name);
    const auto depth = [](const std::string& path) { return std::count(path.begin(), path.end(), '.'); };
    if (fits && (best.empty() || depth(key.path) < depth(best))) best = key.path;
  }
  return best;
}

}  // namespace

UnknownOption find_unknown_option(const CLI::App& command, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (!name.starts_with("--") || name.size() < 3 || command.get_option_no_throw(name) != nullptr) continue;
    UnknownOption unknown{.problem = command.get_name() + " has no option " + name, .advice = ""};
    std::string key = name.substr(2);
    std::replace(key.begin(), key.end(), '-', '_');
    const std::string path = command.get_option_no_throw("--set") == nullptr ? "" : key_called(key);
    if (path.empty()) return unknown;
    const std::size_t equals = words[i].find('=');
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : has_value                 ? words[i + 1]
                                                          : "VALUE";
    unknown.advice = "--set " + path + "=" + value;
    return unknown;
  }
  return {};
}

}  // namespace trainctl::cli
