#include "pretrained/class_order.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "dataset/description.h"

namespace trainctl::pretrained {
namespace {

/// Returns the names of a list, or of a mapping from the numbers of outputs; empty if not each output has a name.
std::vector<std::string> names_by_output(const nlohmann::json& classes) {
  std::vector<std::string> names;
  if (!classes.is_structured()) return {};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const nlohmann::json name = classes.is_array() ? classes[i] : classes.value(std::to_string(i), nlohmann::json());
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

/// Returns the classes of transformers' or timm's config.json in the outputs' order; empty if it lists none.
std::vector<std::string> published_classes(const nlohmann::json& config_json) {
  const nlohmann::json none;
  const nlohmann::json of_weights = config_json.value("pretrained_cfg", none);
  for (const nlohmann::json& classes : {config_json.value("id2label", none), config_json.value("label_names", none),
                                        of_weights.is_object() ? of_weights.value("label_names", none) : none})
    if (std::vector<std::string> names = names_by_output(classes); !names.empty()) return names;
  return {};
}

/// Returns config.json's classes, or those that a run of ours was trained with.
std::vector<std::string> classes_of(const WeightsSource& weights) {
  if (!weights.config_json.is_null()) return published_classes(weights.config_json);
  if (weights.data_description.empty()) return {};
  return dataset::described_datasets(weights.data_description, "").train->spec().class_names;
}

/// Returns whether the names say no more than the outputs' places: LABEL_0, or 0 beside classes that are no such
/// numbers.
bool are_places(const std::vector<std::string>& theirs, const std::vector<std::string>& ours) {
  const bool are_numbers_names = std::any_of(theirs.begin(), theirs.end(), [&](const std::string& name) {
    return std::find(ours.begin(), ours.end(), name) != ours.end();
  });
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const std::string place = std::to_string(i);
    if (theirs[i] != "LABEL_" + place && (theirs[i] != place || are_numbers_names)) return false;
  }
  return true;
}

/// Returns the names in lower case; none if these don't tell the classes apart.
std::optional<std::vector<std::string>> in_lower_case(std::vector<std::string> names) {
  for (std::string& name : names)
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const std::set<std::string> distinct(names.begin(), names.end());
  return distinct.size() == names.size() ? std::optional(std::move(names)) : std::nullopt;
}

/// Returns whether one of our classes is another output's of theirs.
bool is_in_another_place(const std::vector<std::string>& theirs, const std::vector<std::string>& ours) {
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (theirs[i] != ours[i] && std::find(theirs.begin(), theirs.end(), ours[i]) != theirs.end()) return true;
  const auto lower_theirs = in_lower_case(theirs);
  const auto lower_ours = in_lower_case(ours);
  const bool is_new_comparison = lower_theirs && lower_ours && (*lower_theirs != theirs || *lower_ours != ours);
  return is_new_comparison && is_in_another_place(*lower_theirs, *lower_ours);
}

/// Compares as many classes. `path` is that of the weights.
void check_equal_number(const std::filesystem::path& path, const std::vector<std::string>& theirs,
                        const std::vector<std::string>& ours, ClassesBy by) {
  if (theirs == ours || are_places(theirs, ours)) return;
  std::string list;
  for (const std::string& name : theirs) list += (list.empty() ? "" : ", ") + name;
  const bool is_permutation = std::is_permutation(theirs.begin(), theirs.end(), ours.begin(), ours.end());
  const std::string names = is_permutation ? ": [" + list + "]" : " to the data's names in the order of these outputs";
  const std::string remedy =
      "set dataset.class_names" + names + ", or give the directory of the run that trained the weights";
  if (is_in_another_place(theirs, ours))
    throw core::Error("the weights at " + path.string() + " have the data's classes in another order: " + list)
        .hint(remedy);
  if (by == ClassesBy::data)
    throw core::Error("the weights at " + path.string() + " have other classes than the data: " + list).hint(remedy);
}

}  // namespace

void check_class_order(const WeightsSource& weights, const std::vector<std::string>& ours, ClassesBy by) {
  const std::vector<std::string> theirs = classes_of(weights);
  if (!ours.empty() && theirs.size() == ours.size()) check_equal_number(weights.from, theirs, ours, by);
}

void check_exported_classes(const std::filesystem::path& path, const std::vector<std::string>& theirs,
                            const std::vector<std::string>& ours, ClassesBy by) {
  if (theirs.empty() || ours.empty()) return;
  if (theirs.size() != ours.size())
    throw core::Error("the weights at " + path.string() + " have " + core::format_count(theirs.size()) +
                      " classes, and the data has " + core::format_count(ours.size()))
        .hint("give the directory of the run that trained them instead of an experiment file");
  check_equal_number(path, theirs, ours, by);
}

}  // namespace trainctl::pretrained
