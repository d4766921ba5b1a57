#include "pretrained/class_order.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "pretrained/weights_source.h"

namespace trainctl::pretrained {
namespace {

/// Returns the classes of config.json in the outputs' order; empty if it lists none.
std::vector<std::string> published_classes(const nlohmann::json& config_json) {
  std::vector<std::string> names;
  const auto found = config_json.find("id2label");
  if (found == config_json.end() || !found->is_object()) return {};
  for (std::size_t i = 0; i < found->size(); ++i) {
    const auto name = found->find(std::to_string(i));
    if (name == found->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

}  // namespace

void check_class_order(const std::filesystem::path& path, const std::vector<std::string>& ours) {
  const std::vector<std::string> theirs = published_classes(open_weights(path).config_json);
  if (theirs == ours || !std::is_permutation(theirs.begin(), theirs.end(), ours.begin(), ours.end())) return;
  std::string list;
  for (const std::string& name : theirs) list += (list.empty() ? "" : ", ") + name;
  throw core::Error("config.json of " + path.string() + " has the data's classes in another order: " + list)
      .hint("set dataset.class_names: [" + list + "]");
}

}  // namespace trainctl::pretrained
