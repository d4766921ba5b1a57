#include "pretrained/class_order.h"

#include <strings.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "dataset/description.h"
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

/// Returns the classes of the weights at `path`: config.json's, or those that a run of ours was trained with.
std::vector<std::string> classes_of(const std::filesystem::path& path) {
  const WeightsSource source = open_weights(path);
  if (!source.config_json.is_null()) return published_classes(source.config_json);
  if (!std::filesystem::is_directory(source.from)) return {};
  const std::string description = checkpoint::Checkpoint(source.from).info().data_description;
  if (description.empty()) return {};
  return dataset::described_datasets(description, "").train->spec().class_names;
}

bool is_number_alone(const std::string& name, std::size_t place) {
  return name == "LABEL_" + std::to_string(place) || name == std::to_string(place);
}

/// Returns whether one of our classes is another output's of theirs.
bool is_in_another_place(const std::vector<std::string>& theirs, const std::vector<std::string>& ours) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto is_same = [&](const std::string& name) { return ::strcasecmp(name.c_str(), ours[i].c_str()) == 0; };
    if (!is_same(theirs[i]) && std::any_of(theirs.begin(), theirs.end(), is_same)) return true;
  }
  return false;
}

}  // namespace

void check_class_order(const std::filesystem::path& path, const std::vector<std::string>& ours, ClassesBy by) {
  if (ours.empty()) return;
  const std::vector<std::string> theirs = classes_of(path);
  if (theirs.empty() || theirs.size() != ours.size() || theirs == ours) return;
  bool are_numbers = true;
  for (std::size_t i = 0; i < theirs.size(); ++i) are_numbers = are_numbers && is_number_alone(theirs[i], i);
  if (are_numbers) return;
  std::string list;
  for (const std::string& name : theirs) list += (list.empty() ? "" : ", ") + name;
  const bool is_permutation = std::is_permutation(theirs.begin(), theirs.end(), ours.begin(), ours.end());
  const std::string remedy = is_permutation
                                 ? "set dataset.class_names: [" + list + "]"
                                 : "set dataset.class_names to the data's names in the order of these outputs";
  if (is_in_another_place(theirs, ours))
    throw core::Error("the weights at " + path.string() + " have the data's classes in another order: " + list)
        .hint(remedy);
  if (by == ClassesBy::data)
    throw core::Error("the weights at " + path.string() + " have other classes than the data: " + list).hint(remedy);
}

}  // namespace trainctl::pretrained
